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
    """The chosen values, in words."""
    address: str
    """The address of the session's page with this What if."""
    is_shown: bool
    """Whether the panel shows it."""
    is_used: bool
    """Whether the session's settings are the same."""


def saved_what_ifs(
    location: Location, options: WhatIfOptions, settings: SessionSettings
) -> list[SavedWhatIf]:
    """The saved What ifs of the session's project, by name.

    Args:
        options: the options that the panel shows.
    """
    session = location.session
    in_use = {
        "policy": settings.policy,
        "max_tokens": settings.max_tokens,
        "format": settings.format,
        "model": session.model,
    }
    what_ifs = WhatIf.objects.filter(project_id=session.project_id)
    rows = []
    for what_if in sorted(what_ifs, key=lambda what_if: what_if.name.casefold()):
        chosen = WhatIfOptions(what_if.policy, what_if.max_tokens, what_if.format, what_if.model)
        chosen_values = {name: value for name, value in asdict(chosen).items() if value not in ("", None)}
        budget = "" if chosen.max_tokens is None else f"{chosen.max_tokens:,} tokens"
        facts = " · ".join(filter(None, (chosen.policy, budget, chosen.format, chosen.model)))
        address = f"{location.url}?{location.query}&mode=what_if&{urlencode(chosen_values)}"
        is_used = all(in_use[name] == value for name, value in chosen_values.items())
        rows.append(SavedWhatIf(what_if, facts, address, chosen == options, is_used))
    return rows
