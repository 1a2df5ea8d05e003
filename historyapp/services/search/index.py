"""Updates the index of searches across sessions after appends.

An append does not write to it. A search adds the steps of new changes for a short time. A worker adds the
remaining steps, and those recorded before the index existed.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from django.db import DatabaseError, IntegrityError

from historyapp.core.search_documents import SearchDocument
from historyapp.models import Entry, Project, SearchProgress, SearchStep, Session
from historyapp.models.changes import Cursor, changes_since, newest_cursor
from historyapp.models.projects import PURGED
from historyapp.models.search_steps import ReadCount, ReadingStopped, documents
from historyapp.models.search_text_index import add_words, clear_words, remove_words, words_of_session
from historyapp.models.vendor import on_sqlite
from historyapp.services.faults import concerns_data
from historyapp.services.search.deleted_words import must_remove_words
from historyapp.services.transactions import waiting_briefly, writing
from historyapp.wire.problems import CursorExpired, ServerUnavailable

log = logging.getLogger(__name__)

MAX_STEPS = 100
"""The maximum number of steps added in one transaction. On SQLite, agents wait for it."""
MAX_TOKEN_CHARACTERS = 1 << 17
"""The same for the characters of the steps' tokens."""
BATCH_READ = 1 << 22
"""The characters of entries after which the steps that were read are added. The worker may then yield."""
MAX_CHANGES = 50
"""The maximum number of changes that are read from the feed together. Only after them may indexing stop at
sessions without new steps: otherwise short turns would never get beyond them."""
READ_SECONDS = 0.15
"""A search adds steps for at most this many seconds before it responds."""
MAX_READ_BY_SEARCH = 1 << 22
"""The maximum number of characters of entries that a search reads for this. A worker adds the other steps."""
MAX_MISSING_ENTRIES = 300
"""If more entries of a project are missing, a worker adds them."""
_SESSIONS_AT_ONCE = 50
_FIELDS = ("last_position", "anchor", "step", "at", "status", "tools", "checksum", "is_capped", "open_tokens")


class _IndexedElsewhere(Exception):
    """Another process has indexed the same steps meanwhile, or purges the session."""


def catch_up(project: UUID, should_stop: Callable[[], bool], count: ReadCount | None = None) -> bool:
    """Indexes the changes of a project. Returns whether the index is complete.

    Args:
        should_stop: called after each transaction.
        count: limits what is read.
    """
    progress = _progress(project)
    while True:
        try:
            page = changes_since(project, Cursor.parse(progress.cursor), limit=MAX_CHANGES)
        except CursorExpired:
            progress.cursor, progress.is_behind, progress.done_to = str(newest_cursor(project)), True, None
            progress.save()
            continue
        for session in dict.fromkeys([change.session for change in page.changes]):
            if not _index_safely(session, should_stop, count):
                return False
        if str(page.cursor) != progress.cursor:
            progress.cursor = str(page.cursor)
            progress.save(update_fields=["cursor"])
        if not page.has_more:
            break
        if should_stop():
            return False
    return not progress.is_behind or _index_older(progress, should_stop, count)


def catch_up_for_search(project: UUID) -> bool:
    """As :func:`catch_up`, for a short time and with a limit of what is read. If the index cannot be written,
    the search uses it as it is."""
    end = time.monotonic() + READ_SECONDS
    try:
        with waiting_briefly(READ_SECONDS):
            return catch_up(project, lambda: time.monotonic() > end, ReadCount(MAX_READ_BY_SEARCH))
    except (DatabaseError, ServerUnavailable) as error:
        log.warning("The search index cannot be written: %s", error)
        return False


def projects_to_index() -> list[UUID]:
    """The projects with more than ``MAX_MISSING_ENTRIES`` missing entries, which a worker adds; also the
    project of deleted sessions if a worker must remove their words."""
    progress_by_project = {progress.project_id: progress for progress in SearchProgress.objects.all()}
    projects = []
    for project in Project.objects.order_by().values_list("pk", flat=True):
        progress = progress_by_project.get(project)
        if project == PURGED:
            is_behind = must_remove_words(progress)
        elif progress is None:
            is_behind = Session.objects.filter(project=project, head__gt=MAX_MISSING_ENTRIES).exists()
        else:
            is_behind = progress.is_behind or _missing_entries(progress) > MAX_MISSING_ENTRIES
        if is_behind:
            projects.append(project)
    return projects


def _missing_entries(progress: SearchProgress) -> int:
    """The approximate number of entries that were appended since the cursor."""
    try:
        page = changes_since(progress.project_id, Cursor.parse(progress.cursor), limit=MAX_MISSING_ENTRIES)
    except CursorExpired:
        return MAX_MISSING_ENTRIES + 1
    return sum([(change.last_position or 0) - (change.first_position or 1) + 1 for change in page.changes])


def _progress(project: UUID) -> SearchProgress:
    """The progress of a project. Creates it if missing; :func:`_index_older` then indexes earlier entries."""
    progress = SearchProgress.objects.filter(project=project).first()
    if progress is None:
        cursor, is_behind = str(newest_cursor(project)), Session.objects.filter(project=project).exists()
        with writing():  # in the same transaction, so that no words of new rows are cleared
            if not SearchStep.objects.exists():
                clear_words()
        progress, _ = SearchProgress.objects.get_or_create(
            project_id=project, defaults={"cursor": cursor, "is_behind": is_behind}
        )
    return progress


def _index_older(progress: SearchProgress, should_stop: Callable[[], bool], count: ReadCount | None) -> bool:
    """Indexes sessions that were recorded before the cursor, in the order of their ids, which is the order of
    creation."""
    sessions = Session.objects.filter(project=progress.project_id).order_by("pk")
    while True:
        missing = sessions if progress.done_to is None else sessions.filter(pk__gt=progress.done_to)
        batch = list(missing.values_list("pk", flat=True)[:_SESSIONS_AT_ONCE])
        for session in batch:
            if not _index_safely(session, should_stop, count):
                progress.save(update_fields=["done_to"])
                return False
            progress.done_to = session
        if len(batch) < _SESSIONS_AT_ONCE:
            break  # these were the last ones
        progress.save(update_fields=["done_to"])
        if should_stop():
            return False
    progress.is_behind = False
    progress.save(update_fields=["done_to", "is_behind"])
    return True


def _index_safely(session: UUID, should_stop: Callable[[], bool], count: ReadCount | None) -> bool:
    """As :func:`index_session`, but leaves out the rest of a session that the database cannot store.

    Otherwise no session of the project that changes later would be indexed.
    """
    try:
        return index_session(session, should_stop, count)
    except DatabaseError as error:
        if not concerns_data(error):
            raise
        log.exception("Session %s cannot be indexed for searches.", session)
        return True


def index_session(
    session_id: UUID, should_stop: Callable[[], bool] = lambda: False, count: ReadCount | None = None
) -> bool:
    """Adds a session's missing steps to the index. Returns whether no step is missing any more."""
    session = Session.objects.filter(pk=session_id).only("project_id", "head", "fork_position").first()
    if session is None:
        return True
    newest = SearchStep.objects.filter(session=session_id).order_by("-first_position").first()
    first = newest.first_position if newest else session.fork_position + 1
    count = count or ReadCount()
    missing = documents(session.project_id, session_id, first, session.head, count)
    while True:
        batch, was_stopped = _next_batch(missing, count)
        if batch:
            try:
                with writing():
                    newest = _store(session, batch, newest)
            except (_IndexedElsewhere, IntegrityError):
                # Another process is indexing the session and may stop before its end, or the session was
                # deleted.
                return False
        if was_stopped:
            return False
        if not batch:
            return True
        # The first step may be in the index already. Turns that read only this step would never end.
        if batch[-1].first > first and should_stop():
            following = (batch[-1].last + 1, session.head)
            entries = Entry.objects.filter(session=session.pk, position__range=following)
            return not entries.exclude(kind="rewind").exists()


def _next_batch(missing: Iterator[SearchDocument], count: ReadCount) -> tuple[list[SearchDocument], bool]:
    """Makes the documents of one transaction, before it begins. Returns them and whether reading was
    stopped after them."""
    batch, characters, read_before = list[SearchDocument](), 0, count.characters
    try:
        for document in missing:
            batch.append(document)
            characters += len(document.tokens)
            if (
                len(batch) >= MAX_STEPS
                or characters >= MAX_TOKEN_CHARACTERS
                or count.characters - read_before >= BATCH_READ
            ):
                break
    except ReadingStopped:
        return batch, True
    return batch, False


def _store(session: Session, batch: Sequence[SearchDocument], newest: SearchStep | None) -> SearchStep:
    """Stores adjacent documents. The first may replace the newest row."""
    if on_sqlite() and not Session.objects.filter(pk=session.pk, project=session.project_id).exists():
        raise _IndexedElsewhere  # a purge could no longer compute the tokens
    rows = SearchStep.objects.select_for_update().filter(session=session.pk).order_by("-first_position")
    stored = rows.first()
    if (stored and stored.checksum, stored and stored.pk) != (
        newest and newest.checksum,
        newest and newest.pk,
    ):
        raise _IndexedElsewhere
    if newest is not None and newest.first_position == batch[0].first:
        is_last = len(batch) == 1
        if newest.checksum != batch[0].checksum:
            _replace(newest, batch[0], is_open=is_last)
        elif newest.last_position != batch[0].last or (newest.open_tokens is not None) != is_last:
            _fill(newest, batch[0], is_open=is_last)
            newest.save(update_fields=_FIELDS)
        batch = batch[1:]
    elif newest is not None and newest.open_tokens is not None:
        newest.open_tokens = None
        newest.save(update_fields=["open_tokens"])
    return insert_rows(session, batch) or newest or rows[0]


def insert_rows(session: Session, batch: Sequence[SearchDocument]) -> SearchStep | None:
    """Adds rows with their tokens. Returns the last row."""
    rows = []
    for document in batch:
        row = SearchStep(project_id=session.project_id, session_id=session.pk, first_position=document.first)
        _fill(row, document, is_open=document is batch[-1])
        rows.append(row)
    stored = SearchStep.objects.bulk_create(rows)
    add_words((row.pk, document.tokens) for row, document in zip(stored, batch, strict=True))
    return stored[-1] if stored else None


def _replace(row: SearchStep, document: SearchDocument, *, is_open: bool) -> None:
    if row.open_tokens is not None:
        remove_words([(row.pk, row.open_tokens)])
    elif on_sqlite():
        # The old tokens of the row are unknown. With a new primary key, no search finds them.
        row.delete()
        row.pk = None
    _fill(row, document, is_open=is_open)
    row.save()
    add_words([(row.pk, document.tokens)])


def _fill(row: SearchStep, document: SearchDocument, *, is_open: bool) -> None:
    row.last_position, row.anchor, row.step = document.last, document.anchor, document.step
    row.at, row.status, row.checksum = document.at, document.status, document.checksum
    row.tools, row.is_capped = "\n".join(document.tools)[:400], document.is_capped
    row.open_tokens = document.tokens if is_open and on_sqlite() else None


def rebuild_search(session: Session) -> Iterator[str]:
    """Builds a session's rows again, within the caller's transaction. Yields the differences in words.

    Only steps that had rows get new ones. Later steps are indexed as usual.
    """
    rows = list(SearchStep.objects.filter(session=session).order_by("first_position"))
    if not rows:
        return
    last = rows[-1].last_position
    stored, with_words = {row.first_position: row for row in rows}, words_of_session(session.pk)
    for document in documents(session.project_id, session.pk, session.fork_position + 1, last):
        row, is_open = stored.pop(document.first, None), document.last == last
        if row is None:
            yield f"search row {document.first} was missing"
            insert_rows(session, [document])
            continue
        rebuilt = SearchStep(pk=row.pk)
        _fill(rebuilt, document, is_open=False)
        compared = [name for name in _FIELDS if name != "open_tokens"]
        is_equal = all(getattr(row, name) == getattr(rebuilt, name) for name in compared)
        if row.pk not in with_words:
            yield f"search row {document.first} had no words"
        elif not is_equal:
            yield f"search row {document.first} differed"
        if row.pk not in with_words or not is_equal:
            _replace(row, document, is_open=is_open)
    for first, row in stored.items():
        yield f"search row {first} was not in the log"
        row.delete()
