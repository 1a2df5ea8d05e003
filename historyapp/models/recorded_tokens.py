"""Counts the tokens that were ever recorded in sessions, takes included, without reading their entries."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from historyapp.core.json import load_dumped
from historyapp.models.families import SharedEntries
from historyapp.models.fields import as_uuid, uuid_value
from historyapp.models.samples import tokens_at
from historyapp.models.sessions import Session
from historyapp.models.sql import fetch_all

MAX_REWINDS = 5_000
"""The maximum number of rewinds of a family that are read."""
_SESSIONS_AT_ONCE = 500
_REWINDS = """
SELECT kept.session_id, kept.totals, cut.totals FROM historyapp_entry AS kept
LEFT JOIN historyapp_entry AS cut ON cut.session_id = kept.session_id AND cut.position = kept.position - 1
WHERE kept.kind = 'rewind' AND kept.session_id IN ({ids})
ORDER BY kept.session_id, kept.position DESC LIMIT %s
"""


def recorded_tokens(family: SharedEntries, enough: int) -> int:
    """The tokens of the entries that the sessions of a family have recorded. What forks share counts once.

    May be too low if there are at least ``enough``, or if there are more than :data:`MAX_REWINDS` rewinds.
    """
    live = dict(Session.objects.filter(pk__in=family.sessions).values_list("pk", "tokens"))
    if (longest := max(live.values(), default=0)) >= enough:
        return longest
    points = {fork: (str(owner), position) for fork, (owner, position) in family.fork_points().items()}
    at_points = tokens_at(points.values())
    shared = {fork: at_points.get(point, live.get(fork, 0)) for fork, point in points.items()}
    own = {id: tokens - shared.get(id, 0) for id, tokens in live.items()}
    for id, kept, cut in _rewinds(list(live)):
        # An undo restores tokens, so it subtracts them.
        own[id] += (shared.get(id, 0) if cut is None else _tokens(cut)) - _tokens(kept)
    return sum(max(0, tokens) for tokens in own.values())


def _rewinds(sessions: list[UUID]) -> Iterator[tuple[UUID, Any, Any]]:
    """The session of each rewind, its totals, and those of the entry before it, None if that is shared."""
    left = MAX_REWINDS
    for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
        part = [uuid_value(id) for id in sessions[start : start + _SESSIONS_AT_ONCE]]
        statement = _REWINDS.format(ids=", ".join(["%s"] * len(part)))
        for id, kept, cut in fetch_all(statement, [*part, left]):
            left -= 1
            yield as_uuid(id), kept, cut


def _tokens(totals: Any) -> int:
    tokens: int = load_dumped(totals).get("tokens", 0)
    return tokens
