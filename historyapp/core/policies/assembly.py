"""Builds a context: counts the tokens of each part, keeps to the budget, and writes the manifest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from historyapp.core.budget import RequestMeter
from historyapp.core.context import NO_CUTS, Context, CutCost, Rendered
from historyapp.core.conversation import LATE_PREFIX, ConversationPart, InputMessage, Turn, late_text
from historyapp.core.episodes import Episode
from historyapp.core.errors import Invalid
from historyapp.core.manifest import Form, LeftOut, Manifest, ReasoningLeftOut, Segment
from historyapp.core.policies.base import Past, RequestExtras, Unit, unit_position
from historyapp.core.policies.clipping import without_reasoning
from historyapp.core.policies.parts import ContextPart
from historyapp.core.policies.reasoning import ReasoningSource, restore_reasoning

NO_ROOM = "does not fit the budget"
OLDER = "older than what the budget holds"


@dataclass(slots=True)
class Assembly:
    """A context while it is built. Create one with :meth:`begin`."""

    policy: str
    meter: RequestMeter
    max_tokens: int | None
    system: str
    notebook: str
    live_screen: Rendered | None
    fixed: list[Segment]
    used: int
    """Tokens of the fixed parts, of everything added so far, and of the largest frame of the format."""
    past: Past
    extras: RequestExtras
    parts: list[ContextPart] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut_cost: CutCost = NO_CUTS

    @classmethod
    def begin(
        cls, policy: str, past: Past, max_tokens: int | None, meter: RequestMeter, extras: RequestExtras
    ) -> "Assembly":
        """An assembly with the parts that every context has: instruction, notebook, tools and live screen."""
        system, notebook = past.instruction or "", past.notebook or ""
        fixed = meter.fixed_tokens(system, notebook, extras.tools)
        shown = InputMessage(0, extras.live_screen, "live_screen")
        screen = meter.write(shown) if extras.live_screen.strip() else None
        costs = {**fixed._asdict(), "live_screen": screen.tokens if screen else 0}
        segments = [Segment.model_validate({"source": name, "tokens": n}) for name, n in costs.items() if n]
        used = sum(costs.values()) + meter.reserve
        return cls(policy, meter, max_tokens, system, notebook, screen, segments, used, past, extras)

    def part(
        self,
        unit: Unit,
        content: ConversationPart | None = None,
        form: Form = "full",
        rendered: Rendered | None = None,
    ) -> ContextPart:
        """A step or an input, in full or replaced by ``content``.

        The reasoning of a step is added in :meth:`context`, if the parts before it allow that.

        ``rendered``: the part as the format writes it, if known.
        """
        is_whole, blocks = content is None, 0
        if isinstance(unit, Episode):
            content, blocks = content or unit.turn, len(unit.output.reasoning)
            if blocks and isinstance(content, Turn) and not self.extras.keeps_all_reasoning:
                content = replace(content, has_reasoning=False)
            rendered = rendered or self.meter.write(content)
            segment = Segment(source="step", step=unit.number, form=form, tokens=rendered.tokens)
        else:
            content = content or unit
            rendered = self.meter.write(content)
            segment = Segment(source="input", position=unit.position, form=form, tokens=rendered.tokens)
        return ContextPart(unit_position(unit), content, rendered, segment, is_whole=is_whole, blocks=blocks)

    def part_without_reasoning(self, episode: Episode) -> ContextPart:
        """A step in full, to which no reasoning is added later."""
        return self.part(episode, without_reasoning(episode) if self.extras.keeps_all_reasoning else None)

    def take(self, part: ContextPart) -> bool:
        """Adds the part if it fits. Returns whether it fits."""
        if self.max_tokens is not None and self.used + part.segment.tokens > self.max_tokens:
            return False
        self.add(part)
        return True

    def add(self, part: ContextPart, *, before_newest: bool = False) -> None:
        """Adds the part whether it fits or not, at the end or before the last one."""
        self.used += part.segment.tokens
        self.parts.insert(len(self.parts) - before_newest, part)

    def remove_newest(self) -> None:
        """Removes the part at the end."""
        self.used -= self.parts.pop().segment.tokens

    @property
    def parts_tokens(self) -> int:
        """Tokens of all added parts."""
        return sum(part.segment.tokens for part in self.parts)

    def pin(self, parts: Iterable[ContextPart]) -> None:
        """Adds parts that must be in the context.

        Raises:
            Invalid: when they do not fit; ``smallest`` is a budget that works.
        """
        for part in parts:
            self.add(part)
        if self.max_tokens is not None and self.used > self.max_tokens:
            raise Invalid(
                f"max_tokens is {self.max_tokens}, which is too small: the instruction, the notebook, the "
                f"tools and the newest step take {self.used} tokens. Use at least {self.used}.",
                smallest=self.used,
            )

    def fill(self, parts: Iterator[ContextPart], past: Past, *, patience: int = 0) -> bool:
        """Pins the first part and adds those of the others that fit. Returns whether all of them fit.

        ``patience``: the number of parts that are skipped if they do not fit; the next one ends the filling.

        Raises:
            Invalid: when the first one does not fit.
        """
        self.pin(islice(parts, 1))
        for part in parts:
            if self.take(part):
                continue
            segment = part.segment
            if not patience:
                listed = [added.segment.step for added in self.parts]
                listed += [out.first_step for out in self.left_out]
                self.leave_out(1, min(filter(None, listed), default=past.steps + 1) - 1, OLDER)
                self.leave_out_inputs(past, max(part.position, part.covers_to), OLDER)
                return False
            patience -= 1
            if segment.step is not None:
                self.leave_out(segment.step, segment.last_step or segment.step, NO_ROOM)
            else:
                self.left_out.append(LeftOut(position=segment.position, reason=NO_ROOM))
        return not self.left_out

    def leave_out(self, first: int, last: int, reason: str) -> None:
        """Lists steps as left out of the context."""
        if first <= last:
            self.left_out.append(LeftOut(first_step=first, last_step=last, reason=reason))

    def leave_out_all(self, steps: set[int], reason: str) -> None:
        """Lists steps by their numbers as left out, in ranges."""
        for first in sorted(steps):
            if first - 1 not in steps:
                last = first
                while last + 1 in steps:
                    last += 1
                self.leave_out(first, last, reason)

    def leave_out_inputs(self, past: Past, last: int, reason: str) -> None:
        """Lists the inputs up to position ``last`` as left out, except those that are in the context."""
        included = {part.segment.position for part in self.parts if part.segment.source == "input"}
        positions = (message.position for message in past.inputs_newest_first(last + 1))
        newest = next((position for position in positions if position not in included), None)
        if newest is not None:
            first = 2 if 1 in included else 1
            self.left_out.append(LeftOut(position=first, last_position=newest, reason=reason))

    def context(self, *, stable: int = 0) -> Context:
        """The context with the parts added so far. ``stable``: the number of its first parts that the next
        context will repeat."""
        parts = self._without_repetitions(sorted(self.parts, key=lambda part: part.position))
        context = self._context(parts, stable)
        if self.extras.keeps_all_reasoning or not any(part.blocks for part in parts):
            return context
        gaps = [out.position for out in self.left_out if out.position is not None]
        room = None if self.max_tokens is None else self.max_tokens - self.used
        source = ReasoningSource(self.meter, self.past, self.extras, room, min(gaps, default=None))
        parts, left_out = restore_reasoning(parts, context, source)
        return self._context(parts, stable, left_out)

    def _context(
        self, parts: Sequence[ContextPart], stable: int, reasoning: Sequence[ReasoningLeftOut] = ()
    ) -> Context:
        segments = [*self.fixed, *(part.segment for part in parts)]
        context = Context(
            parts=tuple([part.rendered for part in parts]),
            manifest=self._manifest(segments, reasoning),
            system=self.system,
            notebook=self.notebook,
            live_screen=self.live_screen,
            stable=stable,
            cut_cost=self.cut_cost,
        )
        if tokens := self.meter.added_tokens(context):
            overhead = Segment(source="overhead", tokens=tokens)
            context = replace(context, manifest=self._manifest([*segments, overhead], reasoning))
        return context

    def _without_repetitions(self, parts: list[ContextPart]) -> list[ContextPart]:
        """The parts without late results that an earlier step already shows with their tool call."""
        if not any(isinstance(part.content, Turn) and part.content.remarks for part in parts):
            return parts
        known: set[str] = set()
        unrepeated = []
        for part in parts:
            turn = part.content
            if isinstance(turn, Turn):
                remarks = tuple([remark for remark in turn.remarks if remark not in known])
                known.update(map(late_text, turn.results))
                known.update(remark for remark in turn.remarks if remark.startswith(LATE_PREFIX))
                if len(remarks) < len(turn.remarks):
                    content = replace(turn, remarks=remarks)
                    rendered = self.meter.write(content)
                    segment = part.segment.model_copy(update={"tokens": rendered.tokens})
                    part = replace(part, content=content, rendered=rendered, segment=segment)
            unrepeated.append(part)
        return unrepeated

    def _manifest(self, segments: list[Segment], reasoning: Sequence[ReasoningLeftOut]) -> Manifest:
        return Manifest(
            policy=self.policy,
            max_tokens=self.max_tokens,
            tokens=sum(segment.tokens for segment in segments),
            segments=segments,
            left_out=sorted(self.left_out, key=lambda out: (out.first_step or 0, out.position or 0)),
            reasoning_left_out=list(reasoning),
            notes=self.notes,
        )
