"""Putting a context together: what each part costs, what is left of the budget, and the account of it all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context, Rendered
from historyapp.core.conversation import LATE, Aside, Said, Turn, late_text
from historyapp.core.episodes import Episode
from historyapp.core.errors import Invalid
from historyapp.core.manifest import Form, LeftOut, Manifest, Segment
from historyapp.core.policies.base import Ask, Past, StandIn
from historyapp.core.policies.units import Unit, position_of, said_of

NO_ROOM = "does not fit the budget"
OLDER = "older than what the budget holds"


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a conversation: where it stands, how it is written, and its line in the manifest."""

    position: int
    said: Said
    part: Rendered
    segment: Segment


def summary_piece(summary: StandIn, meter: RequestMeter) -> Piece:
    """A summary is told by a user: it repeats what tools returned, which must not speak as the system."""
    first, last = summary.first_step, summary.last_step
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    said = Aside(summary.first_position, f"Summary of {steps}:\n{summary.text}")
    part = meter.write(said)
    segment = Segment(
        source="step",
        step=first,
        last_step=last,
        form="summarised",
        summary=str(summary.id),
        tokens=part.tokens,
    )
    return Piece(summary.first_position, said, part, segment)


@dataclass(slots=True)
class Assembly:
    """One context in the making. Begin with :meth:`begin`."""

    policy: str
    meter: RequestMeter
    max_tokens: int | None
    system: str
    notebook: str
    live_screen: Rendered | None
    fixed: list[Segment]
    used: int
    """Tokens of the fixed parts, the most that the format may add, and all that was taken."""
    pieces: list[Piece] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def begin(
        cls, policy: str, past: Past, max_tokens: int | None, meter: RequestMeter, ask: Ask
    ) -> "Assembly":
        """With the parts that every context has: instruction, notebook, tools and live screen."""
        system, notebook = past.instruction or "", past.notebook or ""
        fixed = meter.fixed(system, notebook, ask.tools)
        screen = meter.write(Aside(0, ask.live_screen, "live_screen")) if ask.live_screen.strip() else None
        costs = {**fixed._asdict(), "live_screen": screen.tokens if screen else 0}
        segments = [Segment.model_validate({"source": name, "tokens": n}) for name, n in costs.items() if n]
        used = sum(costs.values()) + meter.reserve
        return cls(policy, meter, max_tokens, system, notebook, screen, segments, used)

    def piece(self, unit: Unit, said: Said | None = None, form: Form = "full") -> Piece:
        """A step or an input, in full or as what is given."""
        said = said_of(unit) if said is None else said
        part = self.meter.write(said)
        if isinstance(unit, Episode):
            segment = Segment(source="step", step=unit.number, form=form, tokens=part.tokens)
        else:
            segment = Segment(source="input", position=unit.position, form=form, tokens=part.tokens)
        return Piece(position_of(unit), said, part, segment)

    def take(self, piece: Piece) -> bool:
        """Adds the piece if it fits."""
        if self.max_tokens is not None and self.used + piece.segment.tokens > self.max_tokens:
            return False
        self.add(piece)
        return True

    def add(self, piece: Piece) -> None:
        """Adds the piece whether it fits or not."""
        self.used += piece.segment.tokens
        self.pieces.append(piece)

    def pin(self, pieces: Iterable[Piece]) -> None:
        """Adds what must be there.

        Raises:
            Invalid: when it does not fit.
        """
        for piece in pieces:
            self.add(piece)
        if self.max_tokens is not None and self.used > self.max_tokens:
            raise Invalid(
                f"A budget of {self.max_tokens} tokens is too small here: the instruction, the notebook, the "
                f"tools and the newest step take {self.used}. Give at least that many.",
                smallest=self.used,
            )

    def fill(self, pieces: Iterator[Piece], past: Past, *, patience: int = 0) -> bool:
        """Pins the first piece and takes of the following what fits; whether all of them did.

        ``patience``: how many that do not fit are listed and looked past; the next one ends it.

        Raises:
            Invalid: when the first one does not fit.
        """
        self.pin(islice(pieces, 1))
        for piece in pieces:
            if self.take(piece):
                continue
            if not patience:
                self._leave(piece.position, past)
                return False
            patience -= 1
            self._list(piece.segment)
        return not self.left_out

    def _list(self, segment: Segment) -> None:
        if segment.step is not None:
            self.miss(segment.step, segment.last_step or segment.step, NO_ROOM)
        else:
            self.left_out.append(LeftOut(position=segment.position, reason=NO_ROOM))

    def _leave(self, position: int, past: Past) -> None:
        """Lists everything up to a position as left out."""
        told = [piece.segment.step for piece in self.pieces] + [out.first_step for out in self.left_out]
        self.miss(1, min(filter(None, told), default=past.steps + 1) - 1, OLDER)
        self.miss_inputs(past, position, OLDER)

    def miss(self, first: int, last: int, reason: str) -> None:
        """Lists steps as left out."""
        if first <= last:
            self.left_out.append(LeftOut(first_step=first, last_step=last, reason=reason))

    def miss_inputs(self, past: Past, last: int, reason: str) -> None:
        """Lists the inputs up to position ``last`` as left out, but for those that the segments name."""
        held = {piece.segment.position for piece in self.pieces if piece.segment.source == "input"}
        missed = (aside.position for aside in past.asides_newest_first(last + 1))
        newest = next((position for position in missed if position not in held), None)
        if newest is not None:
            first = 2 if 1 in held else 1
            self.left_out.append(LeftOut(position=first, last_position=newest, reason=reason))

    def context(self, *, stable: int = 0) -> Context:
        """The context as it now stands. ``stable``: how many of its pieces the next one will begin with."""
        pieces = self._without_repetitions(sorted(self.pieces, key=lambda piece: piece.position))
        segments = [*self.fixed, *(piece.segment for piece in pieces)]
        context = Context(
            parts=tuple([piece.part for piece in pieces]),
            manifest=self._manifest(segments),
            system=self.system,
            notebook=self.notebook,
            live_screen=self.live_screen,
            stable=stable,
        )
        if tokens := self.meter.added(context):
            overhead = Segment(source="overhead", tokens=tokens)
            context = replace(context, manifest=self._manifest([*segments, overhead]))
        return context

    def _without_repetitions(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces without late results that say again what stands under their call in an earlier step."""
        if not any(isinstance(piece.said, Turn) and piece.said.remarks for piece in pieces):
            return pieces
        known: set[str] = set()
        return [self._unrepeated(piece, known) for piece in pieces]

    def _unrepeated(self, piece: Piece, known: set[str]) -> Piece:
        turn = piece.said
        if not isinstance(turn, Turn):
            return piece
        remarks = tuple([remark for remark in turn.remarks if remark not in known])
        known.update(map(late_text, turn.results))
        known.update(remark for remark in turn.remarks if remark.startswith(LATE))
        if len(remarks) == len(turn.remarks):
            return piece
        said = replace(turn, remarks=remarks)
        part = self.meter.write(said)
        segment = piece.segment.model_copy(update={"tokens": part.tokens})
        return Piece(piece.position, said, part, segment)

    def _manifest(self, segments: list[Segment]) -> Manifest:
        return Manifest(
            policy=self.policy,
            max_tokens=self.max_tokens,
            tokens=sum(segment.tokens for segment in segments),
            segments=segments,
            left_out=sorted(self.left_out, key=lambda out: (out.first_step or 0, out.position or 0)),
            notes=self.notes,
        )
