"""A context as people see it: the use of its budget, its contents, the request, and its changes."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, NamedTuple

from dashboard.rendering.bars import BarPart, draw_bar
from dashboard.rendering.blocks import TERMINAL, Block, Folder
from dashboard.rendering.values import content_text, pretty_json
from historyapp.core.context_diff import (
    MIN_CACHED,
    CacheEffect,
    PrefixDiff,
    SegmentDiff,
    cache_effect,
    diff_prefix,
    diff_segments,
    first_changed,
    is_missed,
)
from historyapp.core.formats import format_named, prefix_bytes
from historyapp.core.formats.base import Format
from historyapp.core.json import dump_json
from historyapp.core.manifest import FullHistory, Manifest, Segment
from historyapp.core.prices import Prices
from historyapp.core.sent_tokens import factor_for
from historyapp.core.settings import window_of
from historyapp.core.text import preview
from historyapp.core.usage import Usage, dollar_text
from historyapp.services.contexts import BuiltContext
from historyapp.services.corrections import learned_factor
from historyapp.services.recorded.requests import RecordedRequest
from historyapp.services.snapshots import ServedContext

LABELS = {
    "system": "system",
    "notebook": "notebook",
    "tools": "tools",
    "input": "inputs",
    "summarised": "summaries",
    "full": "full",
    "clipped": "clipped",
    "masked": "masked",
    "live_screen": "live screen",
    "overhead": "overhead",
    "free": "free",
}
"""The parts of a composition bar, in its order."""
LISTED = 200
"""The maximum number of segments in a list; a context with a high budget may have thousands."""
MAX_DEPTH = 6
"""Levels of a request's item that are looked through for text. Formats nest texts in up to four."""
EXCERPT = 80
"""Bytes that are shown on either side of the first difference of two requests."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The parts of a context within its budget."""

    parts: list[BarPart]
    tokens: int
    budget: int
    over: int
    """Tokens above the budget. Only snapshots of earlier versions have any."""


def composition(manifest: Manifest, budget: int) -> Composition:
    """The bar of a context. Its width represents the budget, or the context if that is larger."""
    tokens = Counter[str]()
    for segment in manifest.segments:
        tokens[kind_of(segment)] += segment.tokens
    tokens["free"] = max(0, budget - manifest.tokens)
    width = max(1, budget, manifest.tokens)
    parts = draw_bar([(kind, label, tokens[kind]) for kind, label in LABELS.items()], width)
    return Composition(parts, manifest.tokens, budget, max(0, manifest.tokens - budget))


def kind_of(segment: Segment) -> str:
    """The part of the bar that a segment belongs to: steps by their form, anything else by its source."""
    whole = segment.source != "step" and segment.form in ("full", "summarised")
    return segment.source if whole else segment.form


@dataclass(frozen=True, slots=True)
class Contents:
    """The segments of a context as a list, and how many steps it has in each form."""

    segments: list[tuple[str, Segment]]
    """The newest last, each with the part of the bar that it belongs to."""
    unlisted: int
    counts: list[tuple[str, int]]
    """Steps by form, each step once, and those left out."""


def list_contents(manifest: Manifest) -> Contents:
    """The newest :data:`LISTED` segments of a context."""
    ranges = defaultdict[str, list[tuple[int, int]]](list)
    for segment in manifest.segments:
        if segment.source == "step" and segment.step is not None:
            form = "in full" if segment.form == "full" else segment.form
            ranges[form].append((segment.step, segment.last_step or segment.step))
    for omitted in manifest.left_out:
        if omitted.first_step is not None:
            ranges["left out"].append((omitted.first_step, omitted.last_step or omitted.first_step))
    counts: list[tuple[str, int]] = []
    for label in ("in full", "clipped", "masked", "summarised", "left out"):
        count = reached = 0
        for first, last in sorted(ranges[label]):  # they may overlap
            count += max(0, last - max(first, reached + 1) + 1)
            reached = max(reached, last)
        if ranges[label]:
            counts.append((label, count))
    return Contents(
        segments=[(kind_of(segment), segment) for segment in manifest.segments[-LISTED:]],
        unlisted=max(0, len(manifest.segments) - LISTED),
        counts=counts,
    )


@dataclass(frozen=True, slots=True)
class RequestPart:
    """One message of a request, or one of its other fields."""

    label: str
    preview: str
    block: Block


def request_parts(built: BuiltContext) -> tuple[list[RequestPart], int]:
    """The messages and fields of a context's request, in the order in which the provider reads them, and how
    many are left out. Of each list, the newest :data:`LISTED` items are shown.
    """
    folder, format, parts, unlisted = Folder(), format_named(built.spec.format), list[RequestPart](), 0
    for name, value in built.request.items():
        is_list = isinstance(value, list) and all(isinstance(item, Mapping) for item in value)
        unlisted += max(0, len(value) - LISTED) if is_list else 0
        for item in value[-LISTED:] if is_list else [value]:
            label, text, language = _item_text(name, item, format) if is_list else _field_text(name, item)
            block = folder.block(f"part-{len(parts)}", text, language)
            excerpt = readable(item) if is_list and name == format.items_field else ""
            parts.append(RequestPart(label, preview(excerpt or text, 90), block))
    return parts, unlisted


def request_json(request: Mapping[str, Any]) -> Block:
    """The whole request as one text."""
    return Folder().block("json", pretty_json(request), "json")


def _field_text(name: str, value: Any) -> tuple[str, str, str]:
    """Label, text and language of a field."""
    return (name, value, TERMINAL) if isinstance(value, str) else (name, pretty_json(value), "json")


def _item_text(name: str, item: Mapping[str, Any], format: Format) -> tuple[str, str, str]:
    """The same of an item of a list: plain text as it is, anything else as JSON."""
    role, content = item.get("role") or item.get("type"), item.get("content")
    label = role if isinstance(role, str) and name == format.items_field else name
    if set(item) <= {"role", "content"} and _is_text(content):
        return label, content_text(content), TERMINAL
    return label, pretty_json(item), "json"


def readable(item: Any, depth: int = MAX_DEPTH) -> str:
    """The text of an item of a request in any format, without the JSON around it; empty if it has none.

    >>> readable({"role": "tool", "tool_call_id": "call_1", "content": "No such file"})
    'No such file'
    """
    if not depth:
        return ""
    match item:
        case str(text) | {"text": str(text)} | {"thinking": str(text)}:
            return text
        case [*parts]:
            return "\n".join(filter(None, (readable(part, depth - 1) for part in parts)))
        case {"tool_calls": [*calls]}:
            return readable([item.get("content"), *calls], depth)
        case {"function": {"name": str(), "arguments": _} as function}:
            return readable(function, depth - 1)
        case {"name": str(name), "arguments": arguments} | {"name": str(name), "input": arguments}:
            return f"{name} {arguments if isinstance(arguments, str) else dump_json(arguments)}"
        case {"output": content} | {"content": content}:
            return readable(content, depth - 1)
        case {"type": str(kind)}:
            return f"[{kind}]"
    return ""


def _is_text(content: Any) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, Sequence) and all(
        isinstance(part, Mapping) and set(part) == {"type", "text"} and isinstance(part["text"], str)
        for part in content
    )


def count_note(served: ServedContext) -> str:
    """Says that a context is counted with a larger factor than a recorded request; empty if it is not."""
    spec = served.built.spec
    if learned_factor(served.correction) is not None or spec.factor <= (usual := factor_for(spec.model)):
        return ""
    tokens = round(served.built.tokens * usual / spec.factor, -3 if served.built.tokens >= 10_000 else -2)
    return (
        f"A cautious count, with {spec.factor:g} tokens for each token of OpenAI's tokenizer. "
        f"With {usual:g}, as in Recorded, the request has about {tokens:,}."
    )


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first difference of two requests: the end of the shared part, and how each continues."""

    shared: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed from the context before a step to the one after it."""

    segments: SegmentDiff
    segment: Segment | None
    """The segment with the first difference, as far as the sizes show."""
    prefix: PrefixDiff
    cache: CacheEffect
    first_difference: FirstDifference | None
    """None if both requests are equal."""
    prices_as_of: str
    """The date of the price list behind ``cache``."""
    kept: str
    """How much of the request is unchanged, as a percentage."""
    extra_cost: int
    """Millionths of a dollar that cache writes cost beyond what cache reads save."""
    cached_cost: int | None
    """Millionths of a dollar for the input if the cache holds everything that both share; None without a
    price.
    """
    bill_note: str
    """What the provider billed for this request, or for the previous one if no step follows."""
    min_cached: int = MIN_CACHED
    """Tokens below which no cache holds a request."""


class Bill(NamedTuple):
    """What the provider billed for a step."""

    step: int
    is_next: bool
    """Whether the later one of two compared requests led to the step; otherwise the earlier one did."""
    usage: Usage
    micros: int | None
    """In millionths of a dollar; None if the price is not known."""


def cheaper_full_history(built: BuiltContext, recorded: RecordedRequest | None = None) -> FullHistory | None:
    """The full history, if it fits the model's window and costs less than the context.

    Args:
        recorded: the request of the step, whose window counts if it is of the same model.
    """
    full = built.manifest.full_history
    if full is None or full.micros >= full.context_micros or full.tokens > window_of(built.spec.model):
        return None
    window = recorded.model_window if recorded and recorded.model == built.spec.model else None
    return full if full.tokens <= (window or full.tokens) else None


def changes(before: BuiltContext, after: BuiltContext, prices: Prices, bill: Bill | None) -> Changes:
    """Compares two contexts as a provider's prompt cache does, and adds what was billed."""
    old, new = prefix_bytes(before.request), prefix_bytes(after.request)
    prefix = diff_prefix(old, new)
    difference, at = None, prefix.first_difference
    if at is not None:
        excerpts = (new[max(0, at - EXCERPT) : at], old[at : at + EXCERPT], new[at : at + EXCERPT])
        difference = FirstDifference(*(excerpt.decode(errors="ignore") for excerpt in excerpts))
    price = prices.of(after.spec.model)
    cache = cache_effect(after.tokens, prefix.share, price)
    full = price.cost(Usage(input=after.tokens)) if price else 0
    return Changes(
        segments=diff_segments(before.manifest.segments, after.manifest.segments),
        segment=first_changed(before.manifest.segments, after.manifest.segments),
        prefix=prefix,
        cache=cache,
        first_difference=difference,
        prices_as_of=prices.as_of,
        kept=f"{floor(prefix.share * 100)}%",
        extra_cost=max(0, -(cache.saved or 0)),
        cached_cost=None if cache.saved is None else full - cache.saved,
        bill_note=_bill_note(bill, prefix, cache) if bill else "",
    )


def _bill_note(bill: Bill, prefix: PrefixDiff, cache: CacheEffect) -> str:
    usage = bill.usage
    if not usage.input:
        return f"The bill for step {bill.step:,} is unknown: no usage is recorded."
    billed, read = f"{usage.input:,} input tokens", f"{usage.cache_read:,} of them read from its cache"
    cost = "" if bill.micros is None else f" It cost {dollar_text(bill.micros)}."
    note = f"For step {bill.step:,} the provider billed {billed}, {read}.{cost}"
    if not bill.is_next:
        return f"{note} This is the previous request, because no step follows this one."
    missed = cache.reusable - usage.cache_read
    if not prefix.continues or not is_missed(missed, cache.reusable):
        return note
    reason = "The reason is unknown: the agent may have sent another request."
    return (
        f"{note} Both requests begin with the same {cache.reusable:,} tokens, but the provider did not read "
        f"{missed:,} of them from its cache. {reason}"
    )
