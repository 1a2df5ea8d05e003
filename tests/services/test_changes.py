"""Every change of a session is in the feed once, in the order of commits."""

import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.errors import Invalid, NotFound
from historyapp.event_streams import EventStream, Reader
from historyapp.models import Change, CompressionRun, Project, Session, Webhook, sql
from historyapp.models import changes as feed
from historyapp.models.changes import START, ChangeKind, Cursor, changes_since, newest_cursor
from historyapp.services import changes, statements
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import cancel_run, start_run
from historyapp.services.figures.feed import follow_changes
from historyapp.services.notes import delete_note, put_note
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.wire.events import KINDS
from historyapp.wire.problems import CursorExpired
from tests.services.drafts import act, ask, ok


def kinds(project: Project, cursor: Cursor = START) -> list[str]:
    return [change.kind for change in changes_since(project.pk, cursor).changes]


@pytest.fixture(autouse=True)
def _the_transaction_of_a_test_counts_as_ended(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        request.getfixturevalue("settled")


@pytest.fixture
def two_steps(project: Project, session: Session) -> Session:
    append(project, session.pk, [ask("go"), act(), ok("1"), act(), ok("2")])
    return session


def test_an_append_is_one_change_with_the_positions_of_its_entries(
    project: Project, two_steps: Session
) -> None:
    created, appended = changes_since(project.pk).changes
    assert (created.kind, created.session, created.last_position) == ("session_created", two_steps.pk, None)
    assert (appended.kind, appended.first_position, appended.last_position) == ("entries", 1, 5)
    assert abs(appended.at - timezone.now()) < timedelta(minutes=1)


def test_a_refused_request_is_not_in_the_feed(project: Project, two_steps: Session) -> None:
    before = newest_cursor(project.pk)
    with pytest.raises(NotFound):
        put_note(project, two_steps.pk, 9)
    with pytest.raises(Invalid):
        rewind(project, two_steps.pk, Target(to_position=99))
    assert kinds(project, before) == []


def test_each_way_to_change_a_session_is_in_the_feed(project: Project, two_steps: Session) -> None:
    id = two_steps.pk

    def changed(act: object) -> list[str]:
        before = newest_cursor(project.pk)
        assert callable(act)
        act()
        return kinds(project, before)

    assert changed(lambda: rewind(project, id, Target(to_step=1))) == ["rewind"]
    assert changed(lambda: undo_rewind(project, id, 6)) == ["rewind"]
    assert changed(lambda: fork(project, id)) == ["session_created"]
    assert changed(lambda: add_summary(project, id, (1, 1), SummaryText("one"))) == ["summaries"]
    assert changed(lambda: put_note(project, id, 1)) == ["notes"]
    assert changed(lambda: delete_note(project, id, 1)) == ["notes"]
    assert changed(lambda: change_session(project, id, {"title": "x"})) == ["session_changed"]
    assert changed(lambda: start_run(project, id, RunRequest(from_step=1, to_step=1))) == ["run"]
    assert changed(lambda: cancel_run(CompressionRun.objects.get(session=id))) == ["run"]


def test_a_deleted_session_stays_in_the_feed(project: Project, session: Session) -> None:
    change_session(project, session.pk, {"status": "archived"})
    purge(project, [session.pk], timezone.now() + timedelta(days=1))
    assert not Session.objects.filter(pk=session.pk).exists()
    assert kinds(project)[-1] == "session_deleted"


def test_a_feed_has_the_changes_of_one_project_or_of_one_session(project: Project, session: Session) -> None:
    create_session(Project.objects.create(name="Bob's"))
    other = create_session(project)
    page = changes_since(project.pk, session=other.pk)
    assert [change.session for change in page.changes] == [other.pk]
    assert page.cursor == newest_cursor(project.pk)
    page = changes_since(project.pk, limit=1, session=other.pk)
    assert [change.session for change in page.changes] == [other.pk], "those of other sessions do not count"


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("skipped", [1, 3, 4, 7, 100])
def test_the_changes_of_a_session_are_found_in_parts_of_the_feed(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, limit: int, skipped: int
) -> None:
    other = create_session(project)
    for title in "abcd":
        change_session(project, other.pk, {"title": title})
        change_session(project, session.pk, {"title": title})
    monkeypatch.setattr(feed, "MAX_SKIPPED", skipped)
    expected = [change for change in changes_since(project.pk).changes if change.session == other.pk]
    found, cursor, has_more, pages = list[feed.ReadChange](), START, True, 0
    while has_more:
        page = changes_since(project.pk, cursor, limit=limit, session=other.pk)
        assert len(page.changes) <= limit
        found += page.changes
        cursor, has_more, pages = page.cursor, page.has_more, pages + 1
    assert found == expected
    assert cursor == newest_cursor(project.pk)
    assert pages <= 11
    assert changes_since(project.pk, cursor, session=other.pk) == ([], cursor, False)


def test_a_stream_of_a_session_reads_few_rows_of_others(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = create_session(project)
    for number in range(30):
        change_session(project, session.pk, {"title": str(number)})
    rows = list[int]()

    def counted(statement: str, values: list[object]) -> list[object]:
        fetched = sql.fetch_all(statement, values)
        rows.append(len(fetched))
        return fetched

    monkeypatch.setattr(feed, "fetch_all", counted)
    assert len(changes_since(project.pk, session=other.pk).changes) == 1
    assert rows == [3], "its change, and the oldest and the newest of the project"


@given(pieces=st.lists(st.integers(1, 7), min_size=1, max_size=30))
@pytest.mark.django_db
def test_pages_of_any_size_together_are_the_whole_feed(pieces: list[int]) -> None:
    with transaction.atomic():
        project = Project.objects.create(name="pages")
        for _ in range(12):
            create_session(project)
        whole, read = list(changes_since(project.pk).changes), list[feed.ReadChange]()
        cursor, has_more = START, True
        for limit in [*pieces, 100]:
            page = changes_since(project.pk, cursor, limit=limit)
            read += page.changes
            assert has_more == bool(page.changes)
            cursor, has_more = page.cursor, page.has_more
        assert read == whole
        transaction.set_rollback(True)


@given(cursor=st.builds(Cursor, st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1)))
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor) -> None:
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "1", "-", "1-2-3", "a-b", "1--2", "٣-٤", "1-" + "9" * 19, "0-1\n"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a cursor of events"):
        Cursor.parse(text)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite runs one writer at a time")
def test_a_transaction_that_commits_late_is_not_skipped() -> None:
    project = Project.objects.create(name="late")
    late, early = create_session(project), create_session(project)
    started, may_commit = threading.Event(), threading.Event()
    before = newest_cursor(project.pk)

    def write_late() -> None:
        with transaction.atomic():
            append(project, late.pk, [ask("late")])
            started.set()
            assert may_commit.wait(60)
        connection.close()

    writer = threading.Thread(target=write_late)
    writer.start()
    assert started.wait(60)
    append(project, early.pk, [ask("early")])
    assert changes_since(project.pk, before).changes == []
    assert newest_cursor(project.pk) == before
    progress = feed.progress()
    may_commit.set()
    writer.join()
    assert feed.progress() != progress
    assert [change.session for change in changes_since(project.pk, before).changes] == [late.pk, early.pk]


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has one database in a file")
def test_a_transaction_in_another_database_delays_nothing() -> None:
    project = Project.objects.create(name="beside")
    values = {**connection.get_connection_params(), "dbname": "postgres"}
    with closing(psycopg.connect(**values)) as other:
        other.execute("SELECT pg_current_xact_id()")
        session, progress = create_session(project), feed.progress()
        assert [change.session for change in changes_since(project.pk).changes] == [session.pk]
        assert newest_cursor(project.pk) != START
        append(project, session.pk, [ask("go")])
        assert feed.progress() != progress
        assert kinds(project) == ["session_created", "entries"]


def test_a_change_of_a_clock_that_was_ahead_does_not_keep_others(project: Project, session: Session) -> None:
    early, now = newest_cursor(project.pk), timezone.now()
    change_session(project, session.pk, {"title": "ahead"})
    ahead = Change.objects.latest("pk").pk
    other = create_session(Project.objects.create(name="other"))
    change_session(project, session.pk, {"title": "a"})
    Change.objects.update(at=now - timedelta(days=40))
    Change.objects.filter(pk=ahead).update(at=now + timedelta(days=400))
    change_session(project, session.pk, {"title": "new"})
    changes.prune_changes(timedelta(days=30))
    assert kinds(project) == ["session_changed"]
    assert kinds(other.project) == []
    with pytest.raises(CursorExpired):
        changes_since(project.pk, early)


def test_more_changes_of_a_clock_that_was_ahead_than_one_batch_do_not_keep_others(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PRUNED_AT_ONCE", 2)
    now, first = timezone.now(), Change.objects.latest("pk").pk
    for title in "abc":
        change_session(project, session.pk, {"title": title})
    ahead = list(Change.objects.filter(pk__gt=first).values_list("pk", flat=True))
    change_session(project, session.pk, {"title": "old"})
    Change.objects.update(at=now - timedelta(days=40))
    Change.objects.filter(pk__in=ahead).update(at=now + timedelta(days=400))
    assert len(ahead) == 3
    changes.prune_changes(timedelta(days=30))
    assert [change.kind for change in Change.objects.all()] == [ChangeKind.PRUNED]


def test_old_changes_are_deleted_and_their_reader_gets_an_error(project: Project, session: Session) -> None:
    early = newest_cursor(project.pk)
    for title in "abc":
        change_session(project, session.pk, {"title": title})
    late = newest_cursor(project.pk)
    Change.objects.update(at=timezone.now() - timedelta(days=40))
    change_session(project, session.pk, {"title": "d"})
    assert changes.prune_changes(timedelta(days=30)) == 3
    assert changes.prune_changes(timedelta(days=30)) == 0
    assert kinds(project) == kinds(project, late) == ["session_changed"]
    with pytest.raises(CursorExpired, match="no longer kept"):
        changes_since(project.pk, early)
    with pytest.raises(CursorExpired, match="no longer kept"):
        changes_since(project.pk, early, session=session.pk)
    assert len(changes_since(project.pk, session=session.pk).changes) == 1


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite counts no transactions")
def test_readers_continue_after_a_restore_of_the_database(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = feed.next_transaction() + 10**9
    Change.objects.update(transaction_id=ahead)
    cursor = Cursor(ahead, Change.objects.latest("id").pk)
    assert changes.reset_transaction_ids() == 1
    change_session(project, session.pk, {"title": "after"})
    Change.objects.filter(kind="session_changed").update(transaction_id=1)  # committed long ago
    assert kinds(project, cursor) == ["session_changed"]


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite counts no transactions")
def test_changes_of_others_while_a_server_starts_keep_their_place(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers whose cursor is beyond them would never get them."""
    added: list[int] = []

    def next_transaction() -> int:
        number = feed.next_transaction()
        change_session(project, session.pk, {"title": f"{len(added)}"})
        change = Change.objects.latest("id")
        Change.objects.filter(pk=change.pk).update(transaction_id=number + 5)
        added.append(change.pk)
        return number

    monkeypatch.setattr(changes, "next_transaction", next_transaction)
    assert changes.reset_transaction_ids() == 0
    assert added
    assert not Change.objects.filter(pk__in=added, transaction_id=0).exists()


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite counts no transactions")
def test_streams_continue_after_a_restore_of_the_database(project: Project, session: Session) -> None:
    ahead = feed.next_transaction() + 10**9
    cursor = Cursor(ahead, Change.objects.latest("id").pk)
    Change.objects.update(transaction_id=0)
    reader = Reader(project.pk)
    assert EventStream(reader, None, str(cursor)).subscription.cursor == Cursor(0, cursor.id)
    change_session(project, session.pk, {"title": "after"})
    stream = EventStream(reader, None, str(cursor))
    assert stream.content.count(b"event: session_changed") == 1
    assert stream.subscription.cursor == stream.subscription.newest == newest_cursor(project.pk)


@pytest.mark.parametrize("after", ["0-999999999999999999", "999999999999999999-999999999999999999", "7-3"])
def test_a_stream_with_a_cursor_in_the_future_begins_now(
    project: Project, session: Session, after: str
) -> None:
    Change.objects.update(transaction_id=0, id=10**6)
    subscription = EventStream(Reader(project.pk), None, after).subscription
    assert subscription.cursor == subscription.newest == newest_cursor(project.pk)


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="counts SQLite's steps")
def test_reading_new_changes_costs_the_same_after_many_older_ones(project: Project, session: Session) -> None:
    Webhook.objects.create(project=project, url="https://example.com/")
    reads: list[Callable[[], object]] = [
        lambda: changes_since(project.pk, newest_cursor(project.pk)),
        lambda: Webhook.objects.due(timezone.now()),
        lambda: follow_changes(lambda: False),
    ]

    def steps_of_each() -> list[int]:
        follow_changes(lambda: False)
        Webhook.objects.update(change_id=newest_cursor(project.pk).id)
        return [sqlite_steps(read) for read in reads]

    few = steps_of_each()
    Change.objects.bulk_create(
        [Change(project=project, session_id=session.pk, kind=ChangeKind.NOTES) for _ in range(2000)]
    )
    assert steps_of_each() == few


def sqlite_steps(read: Callable[[], object]) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(count, 1)
    try:
        read()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps


def test_the_kinds_of_the_api_are_those_of_the_table() -> None:
    assert set(KINDS) == set(ChangeKind.values) - {ChangeKind.PRUNED}


def test_the_columns_in_the_statement_are_those_of_the_model() -> None:
    columns = [str(field.column) for field in Change._meta.local_concrete_fields]
    assert tuple(columns[1:]) == statements.CHANGE_COLUMNS


def test_listeners_are_notified_of_a_commit_and_not_of_a_rollback(
    project: Project, django_capture_on_commit_callbacks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    monkeypatch.setattr(changes, "_listeners", [lambda: heard.append(1)])
    assert callable(django_capture_on_commit_callbacks)
    with django_capture_on_commit_callbacks(execute=True):
        create_session(project)
    assert heard == [1]
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(NotFound):
        put_note(project, uuid4(), 1)
    assert heard == [1]
