"""How much of a lineage is in the index of names, see :mod:`historyapp.models.origins`."""

from typing import NamedTuple
from uuid import UUID

from django.db.models import Sum

from historyapp.core.lineage import Lineage
from historyapp.core.origins import VERSION
from historyapp.models.fields import owners_table, owners_value, session_value, uuid_text
from historyapp.models.origins import NameIndex
from historyapp.models.run_sql import run_sql
from historyapp.models.sql import fetch_all

_INDEXED_TO = (
    "SELECT session_id, position FROM {} CROSS JOIN historyapp_nameindex AS name "
    "WHERE session_id = owner.value AND name.version = %s"
)
_POSITIONS = """
SELECT session.id, session.fork_position, name.position, name.version FROM historyapp_session AS session
LEFT JOIN historyapp_nameindex AS name ON name.session_id = session.id WHERE session.id IN ({})
"""


def indexed_up_to(lineage: Lineage) -> int:
    """The sum of the positions up to which the sessions of a lineage are indexed. Grows with each chunk."""
    owners = map(UUID, lineage.owners)
    result = NameIndex.objects.filter(session__in=owners, version=VERSION).aggregate(sum=Sum("position"))
    return int(result["sum"] or 0)


class MissingEntries(NamedTuple):
    """The entries of a session that are missing in the index."""

    session: UUID
    after: int
    last: int


def missing_entries(lineage: Lineage) -> list[MissingEntries]:
    """The missing entries of each session, oldest first. At most two queries, which read no spans: a session
    has one for each rewind."""
    if _is_indexed(lineage):
        return []
    own = {span.session: span.last for span in lineage.newest}
    ids = lineage.owners or lineage.sessions
    in_list = ", ".join(["%s"] * len(ids))
    rows = fetch_all(_POSITIONS.format(in_list), list(map(session_value, ids))) if ids else ()
    positions = {uuid_text(session): row for session, *row in rows}
    missing, end = list[MissingEntries](), lineage.last
    for session in reversed(ids):
        if session not in positions:  # it was deleted meanwhile
            continue
        fork_position, position, version = positions[session]
        last = end if lineage.older else own[session]
        after = position if version == VERSION else fork_position
        if after < last and fork_position < last:
            missing.append(MissingEntries(UUID(session), after, last))
        end = min(end, fork_position)
    return missing[::-1]


def _is_indexed(lineage: Lineage) -> bool:
    """Whether a fork of many forks is completely in the index. False if its parts are not known.

    The first request after each append finds that entries are missing. All others only need this query.
    """
    parts, owners = lineage.parts() if lineage.older else None, lineage.owners
    if parts is None or parts.firsts[0] > 1 or not owners:
        return False
    sessions = [*parts.sessions, owners[-1]]
    rows = run_sql(_INDEXED_TO.format(owners_table()), [owners_value(sessions), VERSION])
    indexed_to = dict(rows)
    ends = [*(first - 1 for first in parts.firsts[1:]), min(parts.last, lineage.last)]
    if lineage.last > parts.last:
        ends.append(lineage.last)
    return all(
        indexed_to.get(session_value(session), 0) >= end for session, end in zip(sessions, ends, strict=False)
    )
