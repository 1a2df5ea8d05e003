"""Steps as the ``budgeted`` policy reads them: by their excerpts, which are made once and kept in memory.

The entries of a step never change, so neither does its excerpt; only a step that goes on gets another one.
Each process makes a session's excerpts when it first builds such a context, and later those of new steps.
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from historyapp.core.entries import ToolResults
from historyapp.core.episodes import Episode as CoreEpisode
from historyapp.core.excerpts import Excerpt, Line, excerpt_of
from historyapp.core.identifiers import identifiers
from historyapp.core.policies.outline import Outlined
from historyapp.core.tokens import count_tokens, entry_tokens
from historyapp.models.episodes import Place

MOST = 20_000
"""Excerpts that a process keeps, of at most about 2 KB each; the oldest go first."""


class _Key(NamedTuple):
    session: UUID
    anchor: int
    last_position: int


_kept: dict[_Key, Excerpt] = {}
_lock = threading.Lock()


def outlined(
    rows: Sequence[Place],
    summaries: dict[int, str],
    load: Callable[[int, int], Sequence[CoreEpisode]],
) -> list[Outlined]:
    """Steps by their places, oldest first.

    Args:
        summaries: by step number, of those that stand for just one step.
        load: gives the steps of two numbers, both included, with their bodies.
    """
    keys = [_Key(row.session_id, row.anchor, row.last_position) for row in rows]
    known = {key: _kept.get(key) for key in keys}
    missing = {row.number: key for row, key in zip(rows, keys, strict=True) if known[key] is None}
    for episode in load(min(missing), max(missing)) if missing else ():
        if episode.number in missing:
            known[missing[episode.number]] = _keep(missing[episode.number], episode)
    return [
        Outlined(
            number=row.number,
            first_position=row.first_position,
            status=row.status,  # type: ignore[arg-type]  # the column's choices are these
            excerpt=known[key] or Excerpt(),
            summary=_line(summaries.get(row.number)),
        )
        for row, key in zip(rows, keys, strict=True)
    ]


def _keep(key: _Key, episode: CoreEpisode) -> Excerpt:
    results = entry_tokens(ToolResults(results=episode.results)) if episode.results else 0
    excerpt = excerpt_of(episode, entry_tokens(episode.output), results, count_tokens)
    with _lock:
        _kept[key] = excerpt
        while len(_kept) > MOST:
            del _kept[next(iter(_kept))]
    return excerpt


def _line(summary: str | None) -> Line | None:
    return Line(summary, count_tokens(summary), tuple(identifiers(summary))) if summary else None
