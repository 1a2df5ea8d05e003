"""Determines which reasoning of its steps a context sends again.

Signed thinking and encrypted reasoning are bound to every byte before them. A context is checked
from its beginning: a turn keeps its reasoning if each of its blocks has the same bytes before it as in the
request in which it was made, and loses all of it otherwise. A turn is all steps in a row that call tools, and
the step that ends them. This needs only the hash of each past step's request.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context, Item, Rendered
from historyapp.core.conversation import Turn
from historyapp.core.formats import format_named
from historyapp.core.formats.calls import CallIds
from historyapp.core.formats.prefixes import RequestPrefix
from historyapp.core.formats.reasoning import sendable
from historyapp.core.manifest import ReasoningLeftOut
from historyapp.core.policies.base import Origin, Past, RequestExtras
from historyapp.core.policies.parts import ContextPart

CHANGED = "what precedes it has changed since the model wrote it"
CLIPPED = "a step of its turn is clipped"
INCOMPLETE = "another step of its turn is left out"
FOREIGN = "another provider wrote it"
NO_PLACE = "this format has no place for it"
NOT_EXACT = "it cannot be sent exactly as the model wrote it"
NO_ROOM = "it does not fit the budget"
OTHER_MODEL = "another model wrote it"


@dataclass(frozen=True, slots=True)
class ReasoningSource:
    """Where reasoning comes from, and what it may cost."""

    meter: RequestMeter
    past: Past
    extras: RequestExtras
    room: int | None
    """Tokens that are left for it; None: no limit."""
    gap: int | None
    """The first position from which inputs are left out; None if no input is left out."""


def restore_reasoning(
    parts: Sequence[ContextPart], context: Context, source: ReasoningSource
) -> tuple[list[ContextPart], list[ReasoningLeftOut]]:
    """The parts of a context with the reasoning that it may send, and what it leaves out.

    Args:
        parts: the parts of ``context``, none of them with reasoning.
    """
    format = format_named(source.meter.format)
    reasons = dict[int, str]()
    for index, part in enumerate(parts):
        if part.blocks and isinstance(part.content, Turn):
            reasons[index] = CLIPPED
            if part.segment.form != "clipped":
                foreign = FOREIGN if format.reasoning_kinds else NO_PLACE
                states = {"all": "", "none": NOT_EXACT, "foreign": foreign}
                reasons[index] = states[sendable(format, part.content.output)]
    restored = list(parts)
    last = max((index for index, reason in reasons.items() if not reason), default=-1)
    turns = [turn for turn in _turns(parts) if turn[0] <= last]
    if turns:
        walk = _Walk(restored, context, source, reasons)
        blocks_read = 1
        if all(part.is_whole for part in parts):
            blocks_read = len(parts)
            walk.drop_too_long(turns)
        # After a change, a turn fails at its first block. Its others are looked up only if that one is kept.
        walk.look_up([index for turn in turns for index in walk.signed(turn)[:blocks_read]])
        for turn in turns:
            walk.add(turn)
    return restored, _grouped(parts, reasons)


def _turns(parts: Sequence[ContextPart]) -> Iterator[list[int]]:
    """The indexes of the parts, grouped by turn; each input is its own group."""
    turn: list[int] = []
    continues = False
    for index, part in enumerate(parts):
        if turn and not (continues and isinstance(part.content, Turn)):
            yield turn
            turn = []
        turn.append(index)
        continues = _continues(part)
    if turn:
        yield turn


def _continues(part: ContextPart) -> bool:
    """Whether the next step belongs to the same turn, if no input comes before it."""
    content = part.content
    return isinstance(content, Turn) and bool(content.output.tool_calls) and not content.remarks


def _grouped(parts: Sequence[ContextPart], reasons: Mapping[int, str]) -> list[ReasoningLeftOut]:
    """The reasoning that is left out, grouped by adjacent steps with the same reason."""
    listed = []
    for reason, group in groupby(sorted(reasons), key=lambda index: reasons[index]):
        steps = [parts[index] for index in group]
        numbers = [part.segment.step or 0 for part in steps]
        if reason:
            blocks = sum(part.blocks for part in steps)
            left_out = ReasoningLeftOut(
                first_step=numbers[0], last_step=numbers[-1], blocks=blocks, reason=reason
            )
            listed.append(left_out)
    return listed


@dataclass(slots=True)
class _Walk:
    """Goes through a context from its beginning, with the request up to the current part."""

    parts: list[ContextPart]
    """Steps are replaced here by steps with their reasoning."""
    context: Context
    source: ReasoningSource
    reasons: dict[int, str]
    """By index: why a step's reasoning is left out; empty if it is kept."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """By index."""
    prefix: RequestPrefix = field(init=False)
    ids: CallIds = field(init=False)
    room: int | None = field(init=False)
    rendered: dict[int, Rendered] = field(default_factory=dict)
    """Steps with their reasoning, by index, as far as they have been written."""
    is_unchanged: bool = True
    """Whether the parts so far are all live entries, as they were recorded."""
    steps: int = 0

    def __post_init__(self) -> None:
        format = format_named(self.source.meter.format)
        self.prefix = RequestPrefix(format, self.context, self.source.extras.tools)
        self.ids = CallIds(format.longest_id)
        self.room = self.source.room

    def signed(self, turn: Sequence[int]) -> list[int]:
        """The indexes of a turn's parts whose reasoning may be sent, as far as is known."""
        return [index for index in turn if self.reasons.get(index) == ""]

    def drop_too_long(self, turns: Sequence[Sequence[int]]) -> None:
        """Leaves out turns whose reasoning alone is too long, before anything is looked up for them."""
        for turn in turns if self.room is not None else ():
            signed = self.signed(turn)
            added = sum(self._written(index).tokens - self.parts[index].segment.tokens for index in signed)
            if added > (self.room or 0):
                self.reasons |= dict.fromkeys(signed, NO_ROOM)

    def _written(self, index: int) -> Rendered:
        """A step with its reasoning."""
        if index not in self.rendered:
            part = self.parts[index]
            assert isinstance(part.content, Turn)
            self.rendered[index] = self.source.meter.with_reasoning(part.rendered, part.content.output)
        return self.rendered[index]

    def look_up(self, indexes: Sequence[int]) -> None:
        """Looks up the requests in which some steps were made."""
        if not indexes:
            return
        places = {self.parts[index].position: index for index in indexes}
        extras, format = self.source.extras, self.source.meter.format
        origins = self.source.past.origins(list(places), format, extras.model)
        self.origins |= {places[position]: origin for position, origin in origins.items()}

    def add(self, turn: Sequence[int]) -> None:
        """Adds the parts of a turn, with their reasoning if all of it may be sent."""
        legal = [
            [self.ids.of(self.parts[index].position, id) for id in self.parts[index].rendered.calls]
            for index in turn
        ]
        start = self.prefix.copy(), self.is_unchanged, self.steps, self.room
        signed = self.signed(turn)
        broken = [self.reasons[index] for index in turn if self.reasons.get(index) in (CLIPPED, NOT_EXACT)]
        kept = dict[int, ContextPart]()
        reason = broken[0] if broken else INCOMPLETE if self._is_cut(turn) else ""
        for index, ids in zip(turn, legal, strict=True):
            if not reason:
                reason = self._add_part(index, ids, kept)
        if not reason:
            for index, part in kept.items():
                self.parts[index] = part
            return
        self.prefix, self.is_unchanged, self.steps, self.room = start
        for index, ids in zip(turn, legal, strict=True):
            self._add_without_reasoning(index, ids)
        for index in signed:
            self.reasons[index] = self.reasons[index] or reason

    def _is_cut(self, turn: Sequence[int]) -> bool:
        """Whether a step within a turn or after it is not in the context, so that it may belong to it."""
        steps = [self.parts[index].segment.step or 0 for index in turn]
        if steps[-1] - steps[0] != len(steps) - 1:
            return True
        if not _continues(self.parts[turn[-1]]) or steps[-1] == self.source.past.steps:
            return False
        later = islice(self.parts, turn[-1] + 1, None)
        return (
            next((part.segment.step for part in later if isinstance(part.content, Turn)), None)
            != steps[-1] + 1
        )

    def _add_part(self, index: int, ids: Sequence[str], kept: dict[int, ContextPart]) -> str:
        """Adds a part with its reasoning, if it has any. Returns why that cannot be sent; empty if it can."""
        part = self.parts[index]
        if self.reasons.get(index) != "" or self._is_of_other_model(index):
            self._add_without_reasoning(index, ids)
            return ""
        rendered = self._written(index)
        items = format_named(self.source.meter.format).identified(rendered, ids)
        if not self._repeats_request(index, items[0]):
            return self.origins[index].change or CHANGED
        if self.room is not None:
            self.room -= rendered.tokens - part.segment.tokens
            if self.room < 0:
                return NO_ROOM
        segment = part.segment.model_copy(update={"tokens": rendered.tokens})
        kept[index] = replace(part, rendered=rendered, segment=segment)
        self._advance(index, items)
        return ""

    def _is_of_other_model(self, index: int) -> bool:
        """Whether the reasoning of a part is of another model. Unknown origins are looked up together."""
        if index not in self.origins:
            unknown = self.reasons.keys() - self.origins.keys()
            self.look_up([position for position in sorted(unknown) if not self.reasons[position]])
        if self.origins[index].is_other_model:
            self.reasons[index] = OTHER_MODEL
        return self.origins[index].is_other_model

    def _add_without_reasoning(self, index: int, ids: Sequence[str]) -> None:
        part = self.parts[index]
        self._advance(index, format_named(self.source.meter.format).identified(part.rendered, ids))
        # A request with everything live also contains the reasoning of the format's provider.
        self.is_unchanged = self.is_unchanged and self.reasons.get(index, FOREIGN) == FOREIGN

    def _advance(self, index: int, items: Sequence[Item]) -> None:
        segment = self.parts[index].segment
        if index >= self.context.leading:  # the prefix begins with all earlier parts
            self.prefix.add(items)
        self.is_unchanged = self.is_unchanged and self.parts[index].is_whole
        if segment.source == "step" and segment.step is not None:
            self.is_unchanged = self.is_unchanged and segment.step == self.steps + 1
            self.steps = segment.step

    def _repeats_request(self, index: int, first: Item) -> bool:
        """Whether the request so far equals the one that a part answered. ``first``: its first item."""
        part, origin, gap = self.parts[index], self.origins[index], self.source.gap
        if origin.change or not self.prefix.is_beginning_of(first):
            return False
        if origin.sha256:
            return self.prefix.sha256() == origin.sha256
        return (
            self.is_unchanged and part.segment.step == self.steps + 1 and (gap is None or part.position < gap)
        )
