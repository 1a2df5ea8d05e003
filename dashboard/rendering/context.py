"""A context as people read it: what fills its budget, what is in it, what is sent, and what has changed."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from dashboard.rendering.blocks import TERMINAL, Block, Folder
from dashboard.rendering.values import content_text, pretty_json
from dashboard.strip import percent
from historyapp.core.context_diff import (
    LEAST_CACHED,
    CacheEffect,
    PrefixDiff,
    SegmentDiff,
    cache_effect,
    diff_prefix,
    diff_segments,
)
from historyapp.core.formats import prefix_bytes
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.prices import Prices
from historyapp.core.text import preview
from historyapp.services.contexts import BuiltContext

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
"""Segments that a list shows; a context without much of a limit may have thousands."""
EXCERPT = 80
"""Bytes that are shown on either side of the place where two requests part."""


@dataclass(frozen=True, slots=True)
class Share:
    """One part of the composition bar; ``x`` and ``width`` are percentages of it."""

    kind: str
    tokens: int
    x: str
    width: str

    @property
    def label(self) -> str:
        return LABELS[self.kind]


@dataclass(frozen=True, slots=True)
class Composition:
    """What fills a budget."""

    shares: list[Share]
    tokens: int
    budget: int

    @property
    def over(self) -> int:
        """Tokens beyond the budget, in snapshots of earlier versions."""
        return max(0, self.tokens - self.budget)


def composition(manifest: Manifest, budget: int) -> Composition:
    """The bar of a context: its width stands for the budget, or for the context where that is larger."""
    tokens = Counter[str]()
    for segment in manifest.segments:
        tokens[kind_of(segment)] += segment.tokens
    tokens["free"] = max(0, budget - manifest.tokens)
    return Composition(_shares(tokens, max(1, budget, manifest.tokens)), manifest.tokens, budget)


def kind_of(segment: Segment) -> str:
    """Which part of the bar a segment belongs to: what is not a step's by its source, steps by their form."""
    whole = segment.source != "step" and segment.form in ("full", "summarised")
    return segment.source if whole else segment.form


def _shares(tokens: Mapping[str, int], of: int) -> list[Share]:
    shares: list[Share] = []
    before = 0
    for kind in LABELS:
        if tokens[kind]:
            shares.append(Share(kind, tokens[kind], percent(before, of), percent(tokens[kind], of)))
            before += tokens[kind]
    return shares


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a context, as a list, and how many steps it has in which form."""

    manifest: Manifest

    @property
    def segments(self) -> list[tuple[str, Segment]]:
        """The newest last, each with the part of the bar that it belongs to."""
        return [(kind_of(segment), segment) for segment in self.manifest.segments[-LISTED:]]

    @property
    def unlisted(self) -> int:
        return max(0, len(self.manifest.segments) - LISTED)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Steps by form, each once, and those left out."""
        ranges = defaultdict[str, list[tuple[int, int]]](list)
        for segment in self.manifest.segments:
            if segment.source == "step" and segment.step is not None:
                ranges[segment.form].append((segment.step, segment.last_step or segment.step))
        for left in self.manifest.left_out:
            if left.first_step is not None:
                ranges["left out"].append((left.first_step, left.last_step or left.first_step))
        words = (("full", "in full"), ("clipped",) * 2, ("masked",) * 2, ("summarised",) * 2)
        return [(word, _covered(ranges[form])) for form, word in (*words, ("left out",) * 2) if ranges[form]]


def _covered(ranges: list[tuple[int, int]]) -> int:
    """How many steps the ranges cover together, first and last included; they may overlap."""
    count = reached = 0
    for first, last in sorted(ranges):
        count += max(0, last - max(first, reached + 1) + 1)
        reached = max(reached, last)
    return count


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a request, or one of its other fields."""

    label: str
    preview: str
    block: Block


def request_parts(request: Mapping[str, Any]) -> list[Part]:
    """A request piece by piece, in the order in which the provider reads it."""
    folder = Folder()
    return [
        Part(label, preview(text, 90), folder.block(f"part-{number}", text, language))
        for number, (label, text, language) in enumerate(_texts(request))
    ]


def request_json(request: Mapping[str, Any]) -> Block:
    """The whole request as one text."""
    return Folder().block("json", pretty_json(request), "json")


def _texts(request: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, value in request.items():
        if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            for item in value:
                yield (name if name == "tools" else _role(item, name), *_item(item))
        elif isinstance(value, str):
            yield name, value, TERMINAL
        else:
            yield name, pretty_json(value), "json"


def _role(item: Mapping[str, Any], otherwise: str) -> str:
    role = item.get("role") or item.get("type")
    return role if isinstance(role, str) else otherwise


def _item(item: Mapping[str, Any]) -> tuple[str, str]:
    """Plain texts as they are; whatever has more to it as JSON, so that nothing is hidden."""
    content = item.get("content")
    if set(item) <= {"role", "content"} and _is_text(content):
        return content_text(content), TERMINAL
    return pretty_json(item), "json"


def _is_text(content: Any) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, Sequence) and all(
        isinstance(part, Mapping) and set(part) == {"type", "text"} and isinstance(part["text"], str)
        for part in content
    )


@dataclass(frozen=True, slots=True)
class Break:
    """Where two requests part: the end of what they share, and how each goes on."""

    shared: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed from the context before a step to the one after it."""

    segments: SegmentDiff
    prefix: PrefixDiff
    cache: CacheEffect
    parting: Break | None
    """None when both requests are the same."""
    prices_as_of: str
    """The date of the price list behind ``cache``."""

    @property
    def kept(self) -> str:
        """How much of the request is as before, as a percentage."""
        return f"{floor(self.prefix.share * 100)}%"

    @property
    def least_cached(self) -> int:
        """Tokens below which no cache holds a request."""
        return LEAST_CACHED

    @property
    def extra_cost(self) -> int:
        """Millionths of a dollar that cache writes cost beyond what cache reads save."""
        return max(0, -(self.cache.saved or 0))


def changes(before: BuiltContext, after: BuiltContext, prices: Prices) -> Changes:
    """Compares two contexts as a provider's prompt cache does."""
    old, new = prefix_bytes(before.request), prefix_bytes(after.request)
    prefix = diff_prefix(old, new)
    return Changes(
        segments=diff_segments(before.manifest.segments, after.manifest.segments),
        prefix=prefix,
        cache=cache_effect(after.tokens, prefix.share, prices.of(after.spec.model)),
        parting=_parting(old, new, prefix.first_difference),
        prices_as_of=prices.as_of,
    )


def _parting(old: bytes, new: bytes, at: int | None) -> Break | None:
    if at is None:
        return None
    pieces = (new[max(0, at - EXCERPT) : at], old[at : at + EXCERPT], new[at : at + EXCERPT])
    return Break(*(piece.decode(errors="ignore") for piece in pieces))
