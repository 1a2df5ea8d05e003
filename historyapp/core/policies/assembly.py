"""Putting a context together: what each part costs, what is left of the budget, and the account of it all."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from historyapp.core.budget import RequestMeter
from historyapp.core.episodes import Episode
from historyapp.core.errors import Invalid
from historyapp.core.manifest import Context, Form, LeftOut, Manifest, Message, Segment
from historyapp.core.policies.base import Ask, Past, StandIn
from historyapp.core.policies.units import Unit, messages_of, position_of

NO_ROOM = "does not fit the budget"


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a conversation: where it stands, what it says, and its line in the manifest."""

    position: int
    messages: list[Message]
    segment: Segment


def summary_piece(summary: StandIn, meter: RequestMeter) -> Piece:
    """A summary is told by a user: it repeats what tools returned, which must not speak as the system."""
    first, last = summary.first_step, summary.last_step
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    messages = [Message(role="user", content=f"Summary of {steps}:\n{summary.text}")]
    segment = Segment(
        source="step",
        step=first,
        last_step=last,
        form="summarised",
        summary=str(summary.id),
        tokens=meter.messages(messages),
    )
    return Piece(summary.first_position, messages, segment)


@dataclass(slots=True)
class Assembly:
    """One context in the making. Begin with :meth:`begin`."""

    policy: str
    meter: RequestMeter
    max_tokens: int | None
    system: str
    notebook: str
    live_screen: str
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
        costs = {**fixed._asdict(), "live_screen": meter.said(ask.live_screen)}
        segments = [Segment.model_validate({"source": name, "tokens": n}) for name, n in costs.items() if n]
        used = sum(costs.values()) + meter.reserve
        return cls(policy, meter, max_tokens, system, notebook, ask.live_screen, segments, used)

    def piece(self, unit: Unit, messages: list[Message] | None = None, form: Form = "full") -> Piece:
        """A step or an input, in full or as the messages given."""
        told = messages_of(unit) if messages is None else messages
        tokens = self.meter.messages(told)
        if isinstance(unit, Episode):
            segment = Segment(source="step", step=unit.number, form=form, tokens=tokens)
        else:
            segment = Segment(source="input", position=unit.position, form=form, tokens=tokens)
        return Piece(position_of(unit), told, segment)

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
        self.miss(1, min(filter(None, told), default=past.steps + 1) - 1, "older than what the budget holds")
        first = past.first_input
        if first is not None and first.position <= position:
            self.notes.append(
                f"Inputs up to position {position} are left out: the budget does not hold them."
            )

    def miss(self, first: int, last: int, reason: str) -> None:
        """Lists steps as left out."""
        if first <= last:
            self.left_out.append(LeftOut(first_step=first, last_step=last, reason=reason))

    def context(self, *, stable: int = 0) -> Context:
        """The context as it now stands. ``stable``: how many of its pieces the next one will begin with."""
        pieces = sorted(self.pieces, key=lambda piece: piece.position)
        messages = [
            message.model_copy(update={"segment": len(self.fixed) + index})
            for index, piece in enumerate(pieces)
            for message in piece.messages
        ]
        segments = [*self.fixed, *(piece.segment for piece in pieces), *self._added(messages)]
        return Context(
            system=self.system,
            notebook=self.notebook,
            messages=messages,
            live_screen=self.live_screen,
            stable=sum(len(piece.messages) for piece in pieces[:stable]),
            manifest=self._manifest(segments),
        )

    def _added(self, messages: Sequence[Message]) -> list[Segment]:
        tokens = self.meter.added(messages, self.live_screen)
        return [Segment(source="overhead", tokens=tokens)] if tokens else []

    def _manifest(self, segments: list[Segment]) -> Manifest:
        return Manifest(
            policy=self.policy,
            max_tokens=self.max_tokens,
            tokens=sum(segment.tokens for segment in segments),
            segments=segments,
            left_out=sorted(self.left_out, key=lambda out: (out.first_step or 0, out.position or 0)),
            notes=self.notes,
        )
