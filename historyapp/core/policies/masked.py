"""Everything as it was said, but older results as one line each that names the step to fetch."""

from collections.abc import Iterator

from historyapp.core.budget import RequestMeter
from historyapp.core.episodes import Episode
from historyapp.core.manifest import Context, Message
from historyapp.core.policies.assembly import Assembly, Piece
from historyapp.core.policies.base import NO_ASK, Ask, Past
from historyapp.core.policies.units import Unit, answers, late, newest_first, proposal
from historyapp.core.settings import SessionSettings

PLACEHOLDER = "[The result of step {} is left out here. Fetch the step to read it.]"


class Masked:
    name = "masked"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, ask: Ask = NO_ASK
    ) -> Context:
        """The newest ``window_size`` results stay. The newest turn is pinned; the oldest ones go first."""
        assembly = Assembly.begin(self.name, past, settings.max_tokens, meter, ask)
        masking = _Masking(assembly, settings.window_size)
        whole = assembly.fill(masking.pieces(past), past)
        # The next result pushes the oldest one that still stands behind its placeholder.
        stable = sum(piece.position < masking.horizon for piece in assembly.pieces)
        return assembly.context(stable=stable if whole else 0)


class _Masking:
    def __init__(self, assembly: Assembly, keep: int) -> None:
        self._assembly = assembly
        self._keep = keep
        self.horizon = 0
        """Where the oldest step stands that is shown with its results."""

    def pieces(self, past: Past) -> Iterator[Piece]:
        for unit in newest_first(past):
            yield self._piece(unit)

    def _piece(self, unit: Unit) -> Piece:
        full = self._assembly.piece(unit)
        if not isinstance(unit, Episode) or not (unit.results or unit.late):
            return full
        if self._keep > 0:
            self._keep -= len(unit.results) + len(unit.late)
            self.horizon = unit.first_position
            return full
        masked = self._assembly.piece(unit, [proposal(unit), *_masks(unit)], "masked")
        return masked if masked.segment.tokens < full.segment.tokens else full


def _masks(episode: Episode) -> Iterator[Message]:
    placeholder = PLACEHOLDER.format(episode.number)
    for message in (*answers(episode), *late(episode)):
        yield message.model_copy(update={"content": placeholder})


MASKED = Masked()
