"""Removes the words of deleted sessions from SQLite's text index, in a worker.

FTS5 only marks words as deleted: they stay in the file, in their order, until their part of the index is
written again. So the whole index is written again, in short transactions. FTS5's option ``secure-delete`` is
not used: it keeps the words of rows that were replaced before, takes about ten times as long while writers
wait, and older versions of SQLite could no longer read the index.

The state is the :class:`SearchProgress` of the project of deleted sessions: ``is_behind`` if words were
deleted that no writing includes, ``done_to`` while the index is being written, and ``cursor`` for the time
before which it is not written again. Without the row, an earlier version may have deleted words.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from historyapp.models import SearchProgress
from historyapp.models.database_clock import database_now
from historyapp.models.projects import PURGED
from historyapp.models.search_text_index import merge_words
from historyapp.models.vendor import on_sqlite
from historyapp.services.short_transactions import short_transaction
from historyapp.services.wal import empty_wal

REST = timedelta(minutes=10)
"""The index is not written again for this long: it may have gigabytes."""
_PAGES = 50
"""Pages of 4 KB that one transaction writes: about 25 ms."""


def record_deleted_words() -> None:
    """Records that words were deleted, within the caller's transaction."""
    SearchProgress.objects.filter(project=PURGED).update(is_behind=True)


def must_remove_words(state: SearchProgress | None) -> bool:
    """Whether to write the index now.

    Args:
        state: the row of the project of deleted sessions, which exists.
    """
    if not on_sqlite():
        return False
    if state is None or state.done_to is not None:
        return True
    now, until = database_now(), datetime.fromisoformat(state.cursor)
    # A rest that ends later began before the clock was set back.
    return state.is_behind and not now < until <= now + REST


def remove_deleted_words(should_stop: Callable[[], bool] = lambda: False) -> None:
    """Writes the index without the words that were deleted before this began, and then empties the log (WAL).

    Args:
        should_stop: called before each transaction. The next call continues.
    """
    rows = SearchProgress.objects.filter(project=PURGED)
    state = rows.first()
    if not must_remove_words(state):
        return
    if state is None or state.done_to is None:
        with short_transaction():
            begun = {"is_behind": False, "done_to": PURGED, "cursor": ""}
            SearchProgress.objects.update_or_create(project_id=PURGED, defaults=begun)
            merge_words(_PAGES, begins=True)
    has_more = True
    while has_more and not should_stop():
        with short_transaction():
            has_more = merge_words(_PAGES)
    if not has_more and empty_wal():
        with short_transaction():
            rows.update(done_to=None, cursor=(database_now() + REST).isoformat())
