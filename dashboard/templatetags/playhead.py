"""Template tags and filters for every page."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from django import template
from django.conf import settings
from django.template import Context
from django.template.defaultfilters import stringfilter
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from dashboard.location import Location
from dashboard.rendering.blocks import IMAGE, Block
from dashboard.rendering.step import StepView
from dashboard.rendering.text import main_value_first, visible
from dashboard.tools.mcp import mcp_parts
from historyapp.core.dates import duration_text, known_time
from historyapp.core.file_tools import use_of_file
from historyapp.core.results import NO_OUTPUT
from historyapp.core.short_targets import short_target, target_of_step
from historyapp.core.usage import dollar_text, rounded_dollars
from historyapp.models import Episode, Session
from historyapp.services.faults import current_fault
from historyapp.services.rewinds import FORK
from historyapp.wire.problems import StorageFailed

register = template.Library()

_CHANGED = ("+", "−", "new file, ")
"""The beginnings of previews that say how many lines an edit changed."""
_SHORT_THOUGHT = 60
OUTCOMES = {
    "success": ("check", "success"),
    "error": ("cross", "error"),
    "interrupted_by_human": ("hand", "interrupted"),
    "answered": ("speech", "answered"),
    "in_flight": ("clock", "in flight"),
    "abandoned": ("missing", "no result"),
    "likely_failed": ("alert", "likely failed"),
    "skipped": ("missing", "skipped"),
}
"""Icon and word of each status of a step or a result."""


@register.simple_block_tag(end_name="endcopied")
def copied(content: str, name: str) -> SafeString:
    """Lines with a button that copies them."""
    return format_html(
        '<div class="copied"><pre class="text code" id="{0}" tabindex="0">{1}</pre>'
        '<button type="button" class="button with-script" data-copy="{0}">Copy</button></div>',
        name,
        content,
    )


@register.simple_tag
def copyable(value: object, name: str) -> SafeString:
    """An id or a link in full, which can be selected, with a button that copies it.

    Args:
        name: what it is, for the button.
    """
    return format_html(
        '<span class="copyable"><code>{}</code>'
        '<button type="button" class="with-script" data-copy title="Copy the {}">Copy</button></span>',
        value,
        name,
    )


@register.simple_tag(takes_context=True)
def absolute(context: Context, address: str) -> str:
    """An address of this server as other programs need it."""
    request = context["request"]
    return f"{settings.PLAYHEAD_BASE_URL or f'{request.scheme}://{request.get_host()}'}{address}"


@register.simple_tag
def search_link(query: str) -> SafeString:
    """A query as a link to its results in all sessions."""
    address = reverse("search", query={"q": query})
    return format_html('<a href="{}"><code>{}</code></a>', address, escape(query))


@register.simple_tag
@lru_cache(maxsize=256)
def icon(name: str, label: str = "") -> SafeString:
    """An icon of the sprite. Without a label it is decorative."""
    use = format_html('<use href="{}#{}"/>', static("icons.svg"), name)
    if label:
        return format_html('<svg class="icon" role="img" aria-label="{}">{}</svg>', label, use)
    return format_html('<svg class="icon" aria-hidden="true">{}</svg>', use)


@register.simple_tag
@lru_cache(maxsize=256)
def outcome(status: str, words: bool = True) -> SafeString:
    """A status as icon and word; without ``words`` the word is the icon's label."""
    name, word = OUTCOMES.get(status, ("missing", status))
    shown = format_html("{}{}", icon(name), word) if words else icon(name, word)
    return format_html('<span class="outcome outcome-{}">{}</span>', status, shown)


@register.filter
def status_label(status: str) -> str:
    """The label of a status."""
    return OUTCOMES.get(status, ("", status))[1]


@register.filter
def failure_rule_label(rule: str) -> str:
    """The name of a rule for likely failures in words."""
    return rule.replace("_", " ").capitalize()


register.simple_tag(Location.address_of, name="step_url")
register.simple_tag(Location.unfiltered_address_of, name="unfiltered_step_url")
register.simple_tag(Location.address_of_take, name="take_url")


@register.simple_tag
def turn_url(location: Location, turn: int) -> str:
    """The address of the same step in the list of one turn's steps."""
    return replace(location, filter=replace(location.filter, turn=str(turn))).address


@register.simple_tag
def timeline_url(location: Location, **choices: str) -> str:
    """The address of the same step with another axis, heights or colours in the timeline."""
    return replace(location, timeline=location.timeline.chosen(**choices)).address


@register.simple_tag
def zoom_url(location: Location, factor: float) -> str:
    """The address of the same step with ``factor`` times as many steps in the timeline; 0: all."""
    form = location.timeline
    zoomed = form.zoomed(location.step, location.steps, factor) if factor else form.whole()
    return replace(location, timeline=zoomed).address


@register.simple_tag
def block_url(location: Location, block: Block, part: str = "rest") -> str:
    """The address of the rest of a block, of its ``start``, of its ``whole`` text, or of an image."""
    page = "image" if block.shape == IMAGE else "whole-text" if part == "whole" else "block"
    address = reverse(page, args=[location.session.pk, location.step, block.key])
    if part == "whole":
        return f"{address}{location.as_of_query}"
    return f"{address}?start={block.end if part == 'rest' else 0}{location.as_of_parameter}"


@register.filter
def arguments(calls: str, names: list[str]) -> str:
    """Previews of tool calls without tool names; long paths keep only their end.

    If no call has arguments, the names of the tools.
    """
    previews: list[str] = []
    for number, name in enumerate(names):
        is_last, call, later_calls = number == len(names) - 1, calls, ""
        if not is_last:
            call, separator, later_calls = calls.partition(f"); {names[number + 1]}(")
            is_last = not separator
        inside = (calls.removesuffix(")") if is_last else call).removeprefix(f"{name}(")
        previews.append(main_value_first(inside))
        if is_last:
            break
        calls = f"{names[number + 1]}({later_calls}"
    return " · ".join(filter(None, previews)) or ", ".join(dict.fromkeys(names))


@register.simple_tag
def kind_icon(row: Episode) -> SafeString:
    """The icon of a step's kind of tool; of an answer a speech bubble."""
    if not row.kind and not row.tool_names:
        return icon("speech", "answer")
    return icon(f"kind-{row.kind or 'other'}", row.kind or "other")


@register.simple_tag
def chip_icon(kind: str) -> SafeString:
    """The icon of a kind of tool, in its colour, beside its name."""
    return format_html('<span class="kind-{}">{}</span>', kind, icon(f"kind-{kind}"))


register.filter(short_target)


@register.filter
def row_target(row: Episode) -> str:
    """A step's target in its row. Its heading has more space, and the whole command of any failed step."""
    return target_of_step(row.target, row.error_line)


@register.filter("visible")
def visible_text(text: object) -> str:
    """Text of an agent or a person with control characters made visible; it is escaped like all text."""
    return visible(str(text))


@register.filter("truncatechars", is_safe=True)
@stringfilter
def truncated(text: str, length: int) -> str:
    """Replaces Django's filter, which puts all marks of the text in order, in one call and quadratic time:
    64,000 marks in the name of a tool stopped all threads for twelve seconds.
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


@register.filter
def short_title(title: str, length: int) -> str:
    """At most this many characters of a session's title, and of a fork's also its end: both begin alike."""
    end = FORK if title.endswith(FORK) else ""
    return f"{title[: length - 1 - len(end)]}…{end}" if len(title) > length else title


@register.filter
def tool_label(row: Episode) -> str:
    """The names of a step's tools if its icon does not identify them, or how often its one tool ran."""
    is_self_explanatory = row.kind not in ("", "other") and bool(outcome_line(row))
    if row.kind == "edit" and "delete" in map(use_of_file, row.tool_names):
        is_self_explanatory = False
    if not is_self_explanatory or len(set(row.tool_names)) != 1:
        return names([(mcp_parts(name) or ("", name))[1] for name in row.tool_names])
    calls = len(row.tool_names)
    return f"×{calls}" if calls > 1 else ""


@register.filter
def failed_call(step: StepView) -> int | None:
    """The number of the first call that failed; None if it is not among the calls that a page shows first."""
    if step.first_call or not step.headline or not step.headline.has_failed:
        return None
    return 1 if step.all_calls == 1 else step.headline.first_failed


@register.filter
def outcome_line(row: Episode) -> str:
    """The preview of a step's result; for an edit, also its thought if that is one short sentence."""
    shown = row.result_preview or (NO_OUTPUT if row.status == "success" else "")
    if row.kind != "edit" or not shown.startswith(_CHANGED):
        return shown
    thought = row.thought_preview.partition(". ")[0].rstrip(".:")
    return f"{shown} · {thought}" if 0 < len(thought) <= _SHORT_THOUGHT else shown


@register.filter
def names(tools: list[str]) -> str:
    """The first tools of a step, for a list, each with its number of calls if it was called repeatedly."""
    counts = list(Counter(tools).items())[:4]
    return visible(", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts))


@register.filter
def model_names(models: list[str]) -> str:
    """The names of models for a sentence. Django's ``join`` would escape them once too often."""
    return visible(", ".join(model or "the unnamed model" for model in models))


@register.filter
def figure(number: int | None) -> str:
    """A whole number with separators, and with a minus sign if it is negative."""
    return "" if number is None else f"{number:,}".replace("-", "−")


@register.filter
def score(number: float) -> str:
    """A score without trailing zeros: 4, 0.75."""
    return repr(number).removesuffix(".0")


@register.filter
def up_to_step(steps: int) -> str:
    """The part of a session with this many steps."""
    return f"up to step {steps:,}" if steps else "before the first step"


@register.filter
def short_figure(number: int) -> str:
    """A number in at most five characters: 999, 1.2k, 57k, 3.4M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size - size // 2_000:  # 999,999 is 1.0M
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 9.95 else f"{scaled:.0f}{unit}"
    return str(number)


@register.filter
def duration(span: timedelta | None) -> str:
    """How long something took, as :func:`historyapp.core.dates.duration_text` writes it."""
    return "" if span is None else duration_text(span)


@register.filter
def took(step: object) -> str:
    """How long a step took, from its row."""
    started, finished = getattr(step, "started_at", None), getattr(step, "finished_at", None)
    return duration(finished - started) if started and finished and finished > started else ""


@register.simple_tag
def running_time(location: Location, step: Episode) -> SafeString | str:
    """How long a step of a live session has been waiting for its result; ``js/times.js`` counts on.

    Empty for all other steps.
    """
    is_live = location.session.status == Session.Status.LIVE and location.as_of is None
    started = known_time(step.started_at)
    if step.status != "in_flight" or not is_live or started is None:
        return ""
    span = max(timedelta(), timezone.now() - started)
    text = f"{span.seconds} s" if span < timedelta(minutes=1) else duration_text(span)
    return format_html('<span data-running="{}">{}</span>', int(span.total_seconds() * 1000), text)


def ago(moment: datetime) -> str:
    """How long ago something was; the date after a week; "undated" if the time is unknown."""
    if known_time(moment) is None:
        return "undated"
    seconds = (timezone.now() - moment).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    if seconds < 7 * 86_400:
        return f"{seconds // 86_400:.0f} d ago"
    return f"{moment.day} {moment:%b %Y}"


@register.filter
def moment(time: datetime) -> SafeString:
    """A time to the second, in UTC; "undated" if unknown."""
    if known_time(time) is None:
        return format_html('<span title="{}">undated</span>', "The transcript has no times")
    exact = f"{time:%Y-%m-%d %H:%M:%S} UTC"
    return format_html('<time datetime="{}" data-shown="full">{}</time>', time.isoformat(), exact)


@register.filter
def clock(time: datetime) -> SafeString:
    """The time of day to the second, in UTC; empty if unknown."""
    if known_time(time) is None:
        return SafeString()
    markup = '<time datetime="{}" data-shown="clock">{}</time>'
    return format_html(markup, time.isoformat(), f"{time:%H:%M:%S} UTC")


@register.filter
def since(time: datetime) -> SafeString:
    """How long ago something was, with the exact time on hover; ``js/times.js`` shows the reader's zone."""
    if known_time(time) is None:
        return moment(time)
    exact, shown = f"{time:%Y-%m-%d %H:%M:%S} UTC", ago(time)
    kind = "day" if shown.endswith(str(time.year)) else "ago"
    markup = '<time datetime="{}" title="{}" data-shown="{}">{}</time>'
    return format_html(markup, time.isoformat(), exact, kind, shown)


@register.filter
def dollars(micros: int) -> str:
    """Millionths of a dollar as dollars."""
    return rounded_dollars(micros)


register.filter("exact_dollars", dollar_text)


@register.filter
def signed_dollars(micros: int) -> str:
    """More or less money: +$0.02, −$0.0004."""
    return f"{_sign(micros)}{dollars(abs(micros))}"


@register.filter
def signed_figure(number: int) -> str:
    """A larger or smaller number: +1.2k, −80."""
    return f"{_sign(number)}{short_figure(abs(number))}"


@register.filter
def signed_duration(span: timedelta) -> str:
    """A longer or shorter time: +2.5 s."""
    return f"{_sign(span // timedelta(microseconds=1))}{duration(abs(span))}"


def _sign(number: int) -> str:
    return "\N{MINUS SIGN}" if number < 0 else "+"


@register.simple_tag
def storage_fault() -> StorageFailed | None:
    """The fault that keeps the database from being used, or None."""
    return current_fault()
