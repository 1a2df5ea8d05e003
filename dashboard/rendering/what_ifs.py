"""The saved What ifs of a project, as the context panel lists them."""

from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from dashboard.location import Location
from historyapp.core.settings import SessionSettings
from historyapp.models import WhatIf
from historyapp.services.what_ifs import WhatIfOptions


@dataclass(frozen=True, slots=True)
class SavedWhatIf:
    """One row of the list."""

    what_if: WhatIf
    facts: str
    """What it chooses, in words."""
    address: str
    """The session's page with it."""
    is_shown: bool
    """Whether the panel shows it."""
    is_used: bool
    """Whether the session's settings are the same."""


def saved_what_ifs(
    location: Location, options: WhatIfOptions, settings: SessionSettings
) -> list[SavedWhatIf]:
    """Those of the session's project, by name.

    Args:
        options: what the panel shows.
    """
    session = location.session
    found = WhatIf.objects.filter(project_id=session.project_id)
    rows = []
    for what_if in sorted(found, key=lambda each: each.name.casefold()):
        chosen = WhatIfOptions(what_if.policy, what_if.max_tokens, what_if.format, what_if.model)
        in_use = (settings.policy, settings.max_tokens, settings.format, session.model)
        fields = (chosen.policy, chosen.max_tokens, chosen.format, chosen.model)
        is_used = all(mine in ("", None, used) for mine, used in zip(fields, in_use, strict=True))
        rows.append(
            SavedWhatIf(what_if, _facts(chosen), _address(location, chosen), chosen == options, is_used)
        )
    return rows


def _facts(options: WhatIfOptions) -> str:
    budget = "" if options.max_tokens is None else f"{options.max_tokens:,} tokens"
    return " · ".join(filter(None, (options.policy, budget, options.format, options.model)))


def _address(location: Location, options: WhatIfOptions) -> str:
    chosen = urlencode({name: value for name, value in asdict(options).items() if value not in ("", None)})
    return f"{location.url}?{location.query}&mode=what_if&{chosen}"
