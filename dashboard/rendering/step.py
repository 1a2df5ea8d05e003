"""One step as the session page shows it: inputs before it, thought, tool calls and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from dashboard.pace import Pace, StepTimes, Writing, pace_of
from dashboard.rendering.blocks import MARKDOWN, TERMINAL, Block, Folder
from dashboard.rendering.harness import HARNESS_CHANNELS, MessagePart, message_parts
from dashboard.rendering.headline import Headline
from dashboard.rendering.images import image_block, is_image
from dashboard.rendering.prose import is_markdown
from dashboard.rendering.values import (
    LabelledValue,
    argument_values,
    content_text,
    output_blocks,
    pretty_json,
)
from dashboard.tools import draw_call
from dashboard.tools.base import CallBlocks, Card, RecordedCall
from historyapp.core import entries as core
from historyapp.core.call_subjects import CallSubject
from historyapp.core.content import are_parts
from historyapp.core.conversation import results_of_calls
from historyapp.core.dates import known_time
from historyapp.core.episodes import Episode as Step
from historyapp.core.episodes import group_episodes
from historyapp.core.errors import NotFound
from historyapp.core.hidden_texts import without_hidden_texts
from historyapp.core.overview.person_waits import person_waits
from historyapp.core.overview.running import WAIT
from historyapp.core.recorded_diffs import RecordedDiff, recorded_diffs
from historyapp.core.text import preview
from historyapp.core.usage import Usage, reports_too_few, usage_of
from historyapp.models import Episode, Session, Summary
from historyapp.models.history import History
from historyapp.models.relatives import started_by
from historyapp.models.step_entries import MAX_ENTRIES, shown_entries

BETWEEN_STEPS = [b.kind_name() for b in core.BODIES if not b.in_step and b is not core.Rewind]
INPUTS = 20
"""The maximum number of inputs shown with the step that follows them; the newest are shown."""
CALLS = 20
"""The maximum number of parallel tool calls shown at once."""
SUMMARIES = 10
"""The maximum number of summaries shown of one step, the narrowest first."""
_REVIEW_TEXTS = ("analysis", "supervision")


@dataclass(frozen=True, slots=True)
class InputView:
    """An entry between two steps: an input, an instruction or a note."""

    label: str
    blocks: list[Block]
    is_input: bool
    """Whether a person or another program sent it. Other entries are folded."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ResultView:
    """The result of one tool call."""

    status: str
    blocks: list[Block]
    tool_name: str = ""
    call: str = ""
    """The tool call ID of the result."""


@dataclass(slots=True)
class CallView:
    """One of the step's tool calls; ``result`` is None if none was recorded."""

    name: str
    subject: CallSubject
    card: Card
    result: ResultView | None
    subagent: Session | None = None
    """The session of the sub-agent that it started, if that is known."""


@dataclass(frozen=True, slots=True)
class SummaryView:
    """A summary that covers the step."""

    summary: Summary
    block: Block
    is_earlier: bool
    """Whether a newer summary of the same steps replaces it."""


@dataclass(frozen=True, slots=True)
class StepView:
    """Everything that the step's panel shows."""

    row: Episode
    inputs: list[InputView]
    inputs_after: list[InputView]
    """Inputs after the newest step. Empty for other steps, because the next step shows them."""
    thought: Block | None
    text: Block | None
    calls: list[CallView]
    last_call: int
    all_calls: int
    first_call: int
    overall: list[Block]
    """Comments on all results together."""
    late_results: list[ResultView]
    """Results that match none of the step's tool calls."""
    hidden_late: int
    """The number of late results not shown: repeated ones, and all after the first :data:`CALLS`."""
    reviews: list[tuple[core.Review, list[LabelledValue]]]
    summaries: list[SummaryView]
    headline: Headline | None
    """None if the step calls no tool."""
    model: str
    usage: Usage
    written: int
    """Tokens of the output, by our own count."""
    pace: Pace | None
    """How long a replay shows it; None if its time is not known."""
    waited: timedelta
    """How long it waited for a person to approve its calls or to answer its questions."""
    blocks: dict[str, Block] = field(repr=False)

    @property
    def reports_too_few(self) -> bool:
        """Whether the source reports too few tokens of the output."""
        return reports_too_few(self.usage, self.written)

    @property
    def awaited_command(self) -> str:
        """The command for which its first call waits, up to 200 characters; empty without one."""
        return self.row.target.removeprefix(WAIT) if self.row.target.startswith(WAIT) else ""


def load_step(
    history: History, number: int, first_call: int = 0, *, may_be_summarised: bool = True
) -> StepView:
    """The step with at most :data:`CALLS` of its tool calls, in four queries, or six if it has many entries.

    Args:
        may_be_summarised: False if the caller knows that no summary covers the step.

    Raises:
        NotFound: when there is no such live step.
    """
    number = history.resolve(number)
    *before, row = history.rows(number - 1, number) or [history.row(number)]  # a damaged database may lack it
    shown = range(first_call, first_call + CALLS)
    entries = shown_entries(history.lineage, row.first_position, row.last_position, shown)
    covering = _covering(history, row) if may_be_summarised else []
    episode = next(iter(group_episodes(entries, row.number)))
    episode = episode if history.visible.inputs else without_hidden_texts(episode)
    output, metadata, late = episode.output, entries[0].metadata, episode.late[:CALLS]
    calls: list[core.ToolCall | core.UseTool] = [*output.tool_calls]
    if output.use_tool and not calls:
        calls = [output.use_tool]
    # Blocks are made in the order of the page, because the folder shortens later ones more.
    folder, is_newest = Folder(), number == history.steps
    inputs = _inputs_before(history, row, before[0] if before else None, folder)
    thought = folder.block("thought", output.thoughts_text, MARKDOWN) if output.thoughts_text else None
    text = folder.block("text", output.text, MARKDOWN) if output.text else None
    drawn = draw_calls(folder, episode, calls, first_call, recorded_diffs(*[e.metadata for e in entries]))
    _link_subagents(history, row, episode, drawn, first_call)
    return StepView(
        row=row,
        inputs=inputs,
        thought=thought,
        text=text if not calls or output.text != output.thoughts_text else None,
        calls=drawn,
        headline=_headline(row, drawn, len(calls), first_call) if drawn else None,
        first_call=first_call,
        last_call=min(len(calls), first_call + CALLS),
        all_calls=len(calls),
        overall=[folder.block(f"overall-{n}", text) for n, text in enumerate(episode.overall[:CALLS])],
        late_results=[_result(folder, f"late-{n}", result) for n, result in enumerate(late)],
        hidden_late=max(0, row.unpaired - len(late)),
        reviews=[_review(folder, n, review) for n, review in enumerate(episode.reviews[:CALLS])],
        summaries=_summaries(folder, covering),
        inputs_after=load_inputs(history, row.first_position, None, folder) if is_newest else [],
        model=str(metadata.get("model") or ""),
        usage=usage_of(metadata),
        written=entries[0].tokens,
        pace=_pace(row, before[0] if before else None, inputs, output, usage_of(metadata)),
        waited=timedelta(milliseconds=person_waits(entries).total),
        blocks=folder.blocks,
    )


def _review(folder: Folder, number: int, review: core.Review) -> tuple[core.Review, list[LabelledValue]]:
    texts = {name: text for name in _REVIEW_TEXTS if (text := getattr(review, name)) is not None}
    return review, argument_values(folder, f"review-{number}", texts)


def _inputs_before(history: History, row: Episode, before: Episode | None, folder: Folder) -> list[InputView]:
    """The entries between a step and the one before it. No query is needed if their rows are adjacent.

    A step of at most two entries, the first and the last, has no input within it.
    """
    if before is None:
        return load_inputs(history, 0, row.first_position, folder)
    if before.last_position - before.first_position <= 1 and before.last_position + 1 == row.first_position:
        return []
    return load_inputs(history, before.first_position, row.first_position, folder)


def _covering(history: History, row: Episode) -> list[Summary]:
    if not history.visible.inputs:  # summaries quote inputs
        return []
    positions = row.first_position, row.first_position
    return Summary.objects.without_texts().covering(
        history.session, history.lineage, positions, history.as_of
    )


def load_inputs(
    history: History, after: int = 0, before: int | None = None, folder: Folder | None = None
) -> list[InputView]:
    """The newest inputs, instructions and notes between two positions. Empty if they are hidden."""
    if not history.visible.inputs:
        return []
    folder, views = folder or Folder(), []
    newest = history.entries(after=after, before=before, kinds=BETWEEN_STEPS, newest_first=True, limit=INPUTS)
    for entry in list(newest)[::-1]:
        body = entry.core().body
        is_input = entry.kind in core.INPUT_KINDS and body.heading not in HARNESS_CHANNELS
        views.append(
            InputView(
                body.heading,
                input_blocks(folder, entry.position, body, is_closed=not is_input),
                is_input,
                entry.created_at,
            )
        )
    return views


def input_blocks(folder: Folder, position: int, body: core.EntryBody, *, is_closed: bool) -> list[Block]:
    """The words of the sender, additions of the harness, and images."""
    content, key = body.message_content, f"input-{position}"
    parts = content if are_parts(content) else []
    images = [part for part in parts if is_image(part)]
    text_content = [part for part in parts if not is_image(part)] if images else content
    words = content_text(text_content) if text_content else ""
    shown = message_parts(words)
    if not shown and words.strip():
        # A message of empty marks, such as the output of a command that printed nothing, is shown as it is.
        shown = [MessagePart(words)]
    blocks: list[Block] = []
    for number, part in enumerate(shown):
        language = MARKDOWN if is_markdown(part.text) and not part.tag else TERMINAL
        name = f"{key}-{number}" if number else key
        is_aside = bool(part.tag)
        part_block = folder.block(name, part.text, language, part.tag, is_closed=is_closed, is_aside=is_aside)
        blocks.append(part_block)
    for number, image in enumerate(images[:INPUTS]):
        if block := image_block(folder, f"{key}-image{number}", image):
            blocks.append(block)
    return blocks


def raw_blocks(history: History, number: int) -> list[Block]:
    """The entries of a step as the log holds them, in JSON.

    Raises:
        NotFound: when there is no such live step, or when people's texts are hidden: raw entries contain
            answers, feedback, reviews and metadata.
    """
    if not history.visible.inputs:
        raise NotFound("This link does not show raw entries.")
    folder, blocks = Folder(), []
    row = history.row(history.resolve(number))
    after, before = row.first_position - 1, row.last_position + 1
    for entry in history.entries(after=after, before=before, kinds=core.STEP_KINDS, limit=MAX_ENTRIES):
        raw = {
            "position": entry.position,
            "kind": entry.kind,
            "created_at": time.isoformat() if (time := known_time(entry.created_at)) else None,
            "tokens": entry.tokens,
            **entry.body,
            "metadata": entry.metadata,
        }
        label = f"{entry.position} {entry.kind}"
        blocks.append(folder.block(f"raw-{entry.position}", pretty_json(raw), "json", label))
    return blocks


def _pace(
    row: Episode, before: Episode | None, inputs: Sequence[InputView], output: core.ModelOutput, usage: Usage
) -> Pace | None:
    input_times = [view.created_at for view in inputs if view.is_input]
    thoughts = output.thoughts_text or ""
    text = output.text if output.text and output.text != thoughts else ""
    hidden = 0 if thoughts else usage.reasoning
    writing = Writing(len(thoughts) + len(text), usage.output, hidden)
    times_before = StepTimes(before.started_at, before.finished_at) if before else None
    return pace_of(
        StepTimes(row.started_at, row.finished_at), times_before, max(input_times, default=None), writing
    )


def draw_calls(
    folder: Folder,
    step: Step,
    calls: Sequence[core.ToolCall | core.UseTool],
    first_call: int,
    diffs: Mapping[str, RecordedDiff] = MappingProxyType({}),
) -> list[CallView]:
    """At most :data:`CALLS` of a step's calls, from ``first_call``. ``diffs``: by the calls' ids."""
    answered = {call_id for received in step.received for call_id in received.calls}
    ids = [tool_call.id for tool_call in step.output.tool_calls] or [""]
    stop = min(len(calls), first_call + CALLS)
    results = dict(enumerate(zip(ids[:stop], results_of_calls(step.output, step.received), strict=False)))
    views = []
    for index in range(first_call, stop):
        id, result = results.get(index, ("", None))
        result = result if id in answered else None
        diff = diffs[id].text if result and id in diffs else ""
        tool_call = RecordedCall(calls[index].name, calls[index].arguments, result, diff)
        card = draw_call(tool_call, CallBlocks(folder, index))
        view = _result(folder, f"result-{index}", result, in_card=True) if result else None
        views.append(CallView(tool_call.name, tool_call.subject, card, view))
    return views


def _link_subagents(
    history: History, row: Episode, step: Step, drawn: list[CallView], first_call: int
) -> None:
    """Links tool calls to the sessions of sub-agents: by the call's id, otherwise in order."""
    if history.visible.is_shared or not any(view.subject.kind == "agent" for view in drawn):
        return
    started = started_by(history, [row], ("title", "metadata")).get(row.number, [])
    by_call = {str(child.metadata.get("tool_call_id") or child.pk): child for child in started}
    others = iter([child for child in started if not child.metadata.get("tool_call_id")])
    for tool_call, view in zip(step.output.tool_calls[first_call:], drawn, strict=False):
        if view.subject.kind == "agent":
            view.subagent = by_call.get(tool_call.id) or next(others, None)


def _headline(row: Episode, drawn: list[CallView], all_calls: int, first_call: int) -> Headline:
    first = drawn[0]
    numbered = enumerate(drawn, first_call + 1) if all_calls > 1 else ()
    failed = tuple(n for n, view in numbered if view.result and view.result.status == "error")
    badge, is_bad = (first.card.badge, first.card.is_bad) if all_calls == 1 else ("", False)
    is_known = first.subject.kind != "other" and first.subject.target
    target = first.subject.target if is_known else f"{first.name} {first.subject.target}".strip()
    target = row.target if first_call == 0 and row.target.startswith(WAIT) else target
    has_failed = row.status == "error" or row.likely_failure != ""
    serious = (n for n in failed if not drawn[n - first_call - 1].card.found_nothing)
    first_failed = next(serious, next(iter(failed), None))
    more = all_calls - 1
    return Headline(
        first.subject.kind, preview(target), more, badge, is_bad, failed, has_failed, first_failed
    )


def _summaries(folder: Folder, covering: list[Summary]) -> list[SummaryView]:
    """The summaries, the narrowest first. Summaries of the same steps are ordered from new to old."""
    covering = sorted(covering, key=lambda summary: summary.pk, reverse=True)
    covering.sort(key=lambda summary: summary.last_step - summary.first_step)
    views: list[SummaryView] = []
    for number, summary in enumerate(Summary.objects.read([one.pk for one in covering[:SUMMARIES]])):
        steps = (summary.first_step, summary.last_step)
        earlier = any((v.summary.first_step, v.summary.last_step) == steps for v in views)
        views.append(SummaryView(summary, folder.block(f"summary-{number}", summary.text), earlier))
    return views


def _result(folder: Folder, key: str, result: core.ToolResult, *, in_card: bool = False) -> ResultView:
    """A result.

    Args:
        in_card: whether to leave out what the card of its call shows: the outputs or, without outputs, the
            reason.
    """
    reason = None if in_card and result.outputs is None else result.reason
    texts = {"reason": reason, "feedback": result.feedback}
    blocks = [folder.block(f"{key}-{name}", text) for name, text in texts.items() if text]
    if not in_card:
        blocks += output_blocks(folder, key, result.outputs)
    if result.error and result.error.repr != result.reason:
        blocks.append(folder.block(f"{key}-error", result.error.repr, label=result.error.exception_type))
    return ResultView(result.status, blocks, result.tool_name or "", result.tool_call_id or "")
