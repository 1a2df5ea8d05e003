"""Reads the lineages that are stored at rewinds and fork points. In SQL, because a page reads fifty."""

from collections.abc import Collection
from typing import Any

from historyapp.core.json import load_dumped
from historyapp.models.fields import at_places, session_value, unpack, uuid_text
from historyapp.models.run_sql import run_sql

_REWINDS = "SELECT session_id, position, body FROM historyapp_entry WHERE kind = 'rewind' AND ({})"
_FORK_SPANS = "SELECT id, fork_spans FROM historyapp_session WHERE id IN ({})"


def stored_at_rewinds(places: Collection[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """The lineages stored at rewinds, by session and position."""
    where, values = at_places(places)
    return {
        (uuid_text(session), position): load_dumped(unpack(body))
        for session, position, body in run_sql(_REWINDS.format(where), values)
    }


def stored_at_forks(sessions: Collection[str]) -> dict[str, Any]:
    """The lineages stored at the fork points of sessions."""
    statement = _FORK_SPANS.format(", ".join(["%s"] * len(sessions)))
    rows = run_sql(statement, [*map(session_value, sessions)])
    return {uuid_text(session): load_dumped(stored) for session, stored in rows}
