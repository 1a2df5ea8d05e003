"""Everything live in full, and the live screen. If that exceeds the budget, whole turns are left out, the
oldest first."""

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import NO_EXTRAS, Past, RequestExtras, newest_first
from historyapp.core.settings import SessionSettings


class Live:
    name = "live"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, extras: RequestExtras = NO_EXTRAS
    ) -> Context:
        """The newest turn is pinned; older ones follow until one does not fit."""
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        all_fit = assembly.fill(map(assembly.part, newest_first(past)), past)
        return assembly.context(stable=len(assembly.parts) if all_fit else 0)


LIVE = Live()
