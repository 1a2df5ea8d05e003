"""Everything in full, but older results as one line each, which names the step to fetch."""

from collections.abc import Iterator
from dataclasses import replace

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.episodes import Episode
from historyapp.core.policies.assembly import Assembly, ContextPart
from historyapp.core.policies.base import NO_EXTRAS, Past, RequestExtras, Unit, newest_first
from historyapp.core.results import as_text
from historyapp.core.settings import SessionSettings

PLACEHOLDER = "[The result of step {} is left out here. Fetch the step to read it.]"


class Masked:
    name = "masked"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, extras: RequestExtras = NO_EXTRAS
    ) -> Context:
        """The newest ``window_size`` results stay. The newest turn is pinned; the oldest ones go first."""
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        masking = _Masking(assembly, settings.window_size)
        whole = assembly.fill(masking.parts(past), past)
        # The next result pushes the oldest one that still stands behind its placeholder.
        stable = sum(part.position < masking.horizon for part in assembly.parts)
        return assembly.context(stable=stable if whole else 0)


class _Masking:
    def __init__(self, assembly: Assembly, keep: int) -> None:
        self._assembly = assembly
        self._keep = keep
        self.horizon = 0
        """Where the oldest step stands that is shown with its results."""

    def parts(self, past: Past) -> Iterator[ContextPart]:
        for unit in newest_first(past):
            yield self._piece(unit)

    def _piece(self, unit: Unit) -> ContextPart:
        full = self._assembly.part(unit)
        if not isinstance(unit, Episode) or not unit.received:
            return full
        if self._keep > 0:
            self._keep -= len(unit.received)
            self.horizon = unit.first_position
            return full
        turn, placeholder = unit.turn, PLACEHOLDER.format(unit.number)
        results = tuple([as_text(result, placeholder) for result in turn.results])
        short = replace(turn, results=results, remarks=() if results else (placeholder,))
        masked = self._assembly.part(unit, short, "masked")
        return masked if masked.segment.tokens < full.segment.tokens else full


MASKED = Masked()
