"""Everything live as it was said, and the live screen. Over the budget the oldest turns go first, whole."""

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import NO_ASK, Ask, Past
from historyapp.core.policies.units import newest_first
from historyapp.core.settings import SessionSettings


class Live:
    name = "live"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, ask: Ask = NO_ASK
    ) -> Context:
        """The newest turn is pinned; older ones follow until one does not fit."""
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, ask)
        whole = assembly.fill(map(assembly.piece, newest_first(past)), past)
        return assembly.context(stable=len(assembly.pieces) if whole else 0)


LIVE = Live()
