"""Everything in full, except older results: one line replaces each and names the step to fetch."""

from collections.abc import Iterator
from dataclasses import replace

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.episodes import Episode
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import NO_EXTRAS, Past, RequestExtras, newest_first
from historyapp.core.policies.parts import ContextPart
from historyapp.core.results import with_only_text
from historyapp.core.settings import SessionSettings

PLACEHOLDER = "[The result of step {} is left out here. Fetch the step to read it.]"


class Masked:
    name = "masked"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, extras: RequestExtras = NO_EXTRAS
    ) -> Context:
        """The newest ``window_size`` results stay. The newest turn is pinned; the oldest is dropped first."""
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        keep = settings.window_size
        horizon = 0  # the position of the oldest step that is shown with its results

        def parts() -> Iterator[ContextPart]:
            nonlocal keep, horizon
            for unit in newest_first(past):
                full = assembly.part(unit)
                if not isinstance(unit, Episode) or not unit.received:
                    yield full
                elif keep > 0:
                    keep -= len(unit.received)
                    horizon = unit.first_position
                    yield full
                else:
                    turn, placeholder = unit.turn, PLACEHOLDER.format(unit.number)
                    results = tuple([with_only_text(result, placeholder) for result in turn.results])
                    short = replace(turn, results=results, remarks=() if results else (placeholder,))
                    masked = assembly.part(unit, short, "masked")
                    yield masked if masked.segment.tokens < full.segment.tokens else full

        all_fit = assembly.fill(parts(), past)
        # The next result masks the step at the horizon, so only the parts before it stay the same.
        stable = sum(part.position < horizon for part in assembly.parts)
        return assembly.context(stable=stable if all_fit else 0)


MASKED = Masked()
