"""A purge deletes a session in short transactions. It may be killed between two of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import DataError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from historyapp import tasks
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput
from historyapp.models import AuditRecord, CompressionRun, Entry, Project, SearchStep, Session
from historyapp.models.projects import PURGED
from historyapp.models.search_text_index import stored_tokens, words_of_session
from historyapp.services import deletions, short_transactions
from historyapp.services.append import append
from historyapp.services.retention import Purged, erase, purge
from historyapp.services.rewinds import fork
from historyapp.services.search import index
from historyapp.services.sessions import change_session, create_session
from historyapp.services.text_index import index_text
from historyapp.services.transactions import writing
from historyapp.wire.problems import TransactionTooLong
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.services.test_purge_races import MARKER, Race
from tests.services.test_retention import days_ago, tables_with
from tests.test_worker import wait_for_chores

pytestmark = pytest.mark.django_db(transaction=True)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="ours")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_transactions, "_FIRST_ROWS", 1)
    monkeypatch.setattr(short_transactions, "_MAX_ROWS", 1)
    monkeypatch.setattr(deletions, "_MAX_STEPS", 1)


def fill_tables(race: Race) -> None:
    """Adds rows of many kinds to the session and archives it."""
    race.post(f"/sessions/{race.session}/summaries", {"from_step": 1, "to_step": 1, "text": MARKER})
    race.post(f"/sessions/{race.session}/contexts", {})
    race.post(f"/sessions/{race.session}/compressions", {"model": "local"})
    index.index_session(race.session)
    index_text(race.session)
    change_session(race.project, race.session, {"status": "archived"})


def killed_before(statement: int, operation: Callable[[], object]) -> bool:
    """Whether the operation had so many statements. It ends before this one."""
    count = 0

    def execute(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal count
        count += 1
        if count == statement:
            raise Killed
        return execute(sql, params, many, context)

    try:
        with connection.execute_wrapper(execute):
            operation()
    except Killed:
        return True
    return False


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_killed_purge_leaves_a_whole_session_or_none_and_the_next_one_ends_it(every: int) -> None:
    race, was_killed, statement = Race(), True, 0
    agent = Agent(key_for(race.project, "reader"))
    while was_killed:
        statement += every
        fill_tables(race)
        id = race.session

        def purge_it(id: Any = id) -> None:
            purge(race.project, [id], days_ago(-1))

        was_killed = killed_before(statement, purge_it)
        found = agent.get(f"/sessions/{id}")
        if found.status == 200:
            assert found["steps"] == Session.objects.get(pk=id).steps == 2
            assert Entry.objects.filter(session=id).count() == 5
        else:
            assert found.status == 404
            assert AuditRecord.objects.filter(session=id, action="purge").count() == 1
        purge_it()
        assert tables_with(MARKER) == set(), f"It was killed before statement {statement}."
        assert words_of_session(id) == set()
        assert not Session.objects.filter(pk=id).exists()
        race.start()
    assert statement > 40


def long_session(project: Project, steps: int = 30) -> Session:
    session = create_session(project)
    append(project, session.pk, [EntryDraft(ModelInput(content="go"))])
    append(project, session.pk, [EntryDraft(ModelOutput(text=f"word{step}")) for step in range(steps)])
    assert index.index_session(session.pk)
    change_session(project, session.pk, {"status": "archived"})
    return session


def test_no_text_is_read_within_a_transaction(project: Project) -> None:
    session, read = long_session(project), list[str]()

    def execute(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if connection.in_atomic_block and sql.startswith("SELECT"):
            read.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(execute):
        assert purge(project, [session.pk], days_ago(-1)) == Purged(1, 31)
    assert read
    assert not [sql for sql in read if '"body"' in sql or "body," in sql or '"text"' in sql]


def test_the_rows_are_deleted_in_transactions_of_limited_size(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_transactions, "_MAX_ROWS", 4)
    session, counts = long_session(project), list[tuple[int, int]]()
    counts.append((Entry.objects.count(), SearchStep.objects.count()))
    delete, remove = deletions._delete, deletions._remove

    def count(operation: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: Any) -> None:
            operation(*arguments)
            counts.append((Entry.objects.count(), SearchStep.objects.count()))

        return counted

    monkeypatch.setattr(deletions, "_delete", count(delete))
    monkeypatch.setattr(deletions, "_remove", count(remove))
    purge(project, [session.pk], days_ago(-1))
    assert counts[0] == (31, 30)
    assert counts[-1] == (0, 0)
    for before, after in pairwise(counts):
        assert 0 <= before[0] - after[0] <= 4
        assert 0 <= before[1] - after[1] <= 4


def deleted_at_once(monkeypatch: pytest.MonkeyPatch, most: int = 1_000) -> list[int]:
    """The numbers of entries that one transaction deletes. More than ``most`` take too long."""
    numbers, delete = list[int](), deletions._delete

    def counted(part: Any) -> None:
        if part.model is Entry and (number := part.count()):
            if number > most:
                raise TransactionTooLong("The transaction was ended.")
            numbers.append(number)
        delete(part)

    monkeypatch.setattr(deletions, "_delete", counted)
    return numbers


def test_a_transaction_deletes_one_long_row_and_many_short_ones(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 entries of 84 MB took longer than a transaction may take, each time that it was tried."""
    monkeypatch.setattr(short_transactions, "_FIRST_ROWS", 20)
    monkeypatch.setattr(short_transactions, "_MAX_ROWS", 20)
    monkeypatch.setattr(short_transactions, "_PART_BYTES", 100_000)
    monkeypatch.setattr(short_transactions, "PART_SECONDS", 60.0)  # so that the time changes nothing
    session = create_session(project)
    for length in (1, 1, 100_000, 100_000, 60_000, 60_000, *[1] * 24):
        append(project, session.pk, [EntryDraft(ModelInput(content="go"), metadata={"note": "x" * length})])
    change_session(project, session.pk, {"status": "archived"})
    numbers = deleted_at_once(monkeypatch)
    assert erase(Session.objects.get(pk=session.pk)) == Purged(1, 30)
    assert numbers[:3] == [3, 1, 2]
    assert len(numbers) < 10
    assert sum(numbers) == 30


def test_a_part_that_takes_too_long_is_tried_again_with_fewer_rows(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_transactions, "_FIRST_ROWS", 20)
    monkeypatch.setattr(short_transactions, "_MAX_ROWS", 20)
    session = long_session(project)
    numbers = deleted_at_once(monkeypatch, most=3)
    assert erase(Session.objects.get(pk=session.pk)) == Purged(1, 31)
    assert sum(numbers) == 31
    assert numbers[0] == 2


def test_a_single_row_that_takes_too_long_is_an_error(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = long_session(project)
    deleted_at_once(monkeypatch, most=0)
    with pytest.raises(TransactionTooLong):
        erase(Session.objects.get(pk=session.pk))


def hidden(project: Project, session: Session) -> None:
    """Starts a purge, which is killed after its first transaction."""

    def kill(*arguments: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("historyapp.services.retention.delete_hidden", kill)
        with pytest.raises(Killed):
            purge(project, [session.pk], timezone.now())


def test_a_session_that_a_purge_has_begun_to_delete_cannot_be_used(project: Project) -> None:
    session = long_session(project)
    hidden(project, session)
    agent = Agent(key_for(project, "writer"))
    path = f"/sessions/{session.pk}"
    assert agent.get(path).status == agent.get(f"{path}/entries").status == 404
    assert agent.get(f"{path}/export?format=playhead_jsonl").status == 404
    assert agent.post(f"{path}/actions", {"use_tool": {"name": "ls"}}).status == 404
    assert agent.post(f"{path}/forks", {}).status == 404
    assert agent.patch(path, {"status": "live"}).status == 404
    assert agent.get("/search?q=word3")["items"] == []
    assert agent.get("/sessions?status=all")["items"] == []
    assert agent.get("/events?limit=100")["items"][-1]["kind"] == "session_deleted"


def test_a_purge_of_another_project_ends_the_deletion_of_a_killed_one(project: Project) -> None:
    session = long_session(project)
    hidden(project, session)
    assert Session.objects.get().project_id == PURGED
    assert purge(Project.objects.create(name="theirs"), [], days_ago(0)) == Purged(0, 0)
    assert Session.objects.count() == Entry.objects.count() == 0
    assert words_of_session(session.pk) == set()


def test_an_erasure_does_not_wait_for_the_deletion_of_another_session(project: Project) -> None:
    session, erased = long_session(project), long_session(project)
    hidden(project, session)
    erased.refresh_from_db()
    assert erase(erased) == Purged(1, 31)
    assert Session.objects.get() == session
    assert Entry.objects.count() == 31


def test_runs_are_deleted_in_parts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    session, deleted = long_session(project, 1), list[int]()
    fields = {"strategy": "structured", "state": "succeeded", "head": 2, "from_step": 1, "to_step": 0}
    CompressionRun.objects.bulk_create(
        CompressionRun(project=project, session=session, **fields) for _ in range(5)
    )

    @contextmanager
    def counted() -> Iterator[None]:
        with writing():
            before = CompressionRun.objects.count()
            yield
            deleted.append(before - CompressionRun.objects.count())

    monkeypatch.setattr(short_transactions, "writing", counted)
    purge(project, [session.pk], timezone.now())
    assert (sum(deleted), max(deleted)) == (5, 1)


def test_a_deletion_shows_progress_so_that_no_worker_takes_it_over(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion of a killed process continues within a minute, and that of a living one is left alone."""
    assert timedelta(0) < deletions.INTERRUPTED_AFTER < timedelta(minutes=1)
    monkeypatch.setattr(deletions, "HEARTBEAT_SECONDS", 0.0)
    session, delete, times = long_session(project, 3), deletions._delete, list[datetime]()

    def noted(rows: Any) -> None:
        times.append(Session.objects.get(pk=session.pk).last_entry_at)
        delete(rows)

    monkeypatch.setattr(deletions, "_delete", noted)
    purge(project, [session.pk], timezone.now())
    assert len(times) > 3
    assert times == sorted(set(times))
    assert not Session.objects.filter(pk=session.pk).exists()


def test_one_transaction_hides_active_and_new_runs_and_later_ones_the_others(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "_RUNS_AT_ONCE", 2)
    states, session = CompressionRun.State, create_session(project)
    steps = {"head": 0, "from_step": 1, "to_step": 0}
    active, *ended = [
        CompressionRun.objects.create(project=project, session=session, strategy="s", state=state, **steps)
        for state in (states.RUNNING, *[states.SUCCEEDED] * 5)
    ]
    with writing():
        deletions.hide(session, "")
    active.refresh_from_db()
    assert active.state == states.CANCELLED
    hidden = CompressionRun.objects.filter(project=PURGED)
    assert set(hidden.all()) == {active, *ended[3:]}
    with CaptureQueriesContext(connection) as queries:
        deletions._hide_runs(session.pk)
    assert set(hidden.all()) == {active, *ended}
    updates = [query["sql"] for query in queries if query["sql"].startswith("UPDATE")]
    assert len(updates) == 2


@pytest.mark.parametrize("error", [ValueError("unexpected"), DataError("out of range")])
def test_a_session_that_cannot_be_deleted_does_not_stop_the_deletion_of_others(
    project: Project, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged, session = sorted([long_session(project), long_session(project)], key=lambda session: session.pk)
    with writing():
        for each in (damaged, session):
            deletions.hide(each, "")
    empty_texts = deletions._empty_texts

    def fail(id: Any, responses: Any) -> None:
        if id == damaged.pk:
            raise error
        empty_texts(id, responses)

    monkeypatch.setattr(deletions, "_empty_texts", fail)
    assert deletions.delete_hidden_sessions() == 1
    assert Session.objects.get() == damaged


def test_steps_that_were_read_before_the_purge_are_not_indexed_after_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    append(project, session.pk, [EntryDraft(ModelInput(content="go")), EntryDraft(ModelOutput(text="zebra"))])
    change_session(project, session.pk, {"status": "archived"})
    store = index._store

    def store_late(*arguments: Any) -> Any:
        hidden(project, session)
        return store(*arguments)

    monkeypatch.setattr(index, "_store", store_late)
    index.index_session(session.pk)
    purge(project, [], days_ago(0))
    assert words_of_session(session.pk) == set()


def test_a_killed_purge_of_a_fork_does_not_block_its_parent(project: Project) -> None:
    parent = create_session(project)
    append(project, parent.pk, [EntryDraft(ModelInput(content="go")), EntryDraft(ModelOutput(text="done"))])
    child = fork(project, parent.pk)
    for session in (parent, child):
        change_session(project, session.pk, {"status": "archived"})
    hidden(project, child)
    assert purge(project, [parent.pk], timezone.now()) == Purged(1, 2)
    assert Session.objects.count() == 0


def test_a_worker_completes_an_interrupted_deletion(project: Project) -> None:
    session = long_session(project)
    hidden(project, session)
    tasks.sweep()
    wait_for_chores()
    assert Entry.objects.count() == 31  # the process may still be running
    Session.objects.update(last_entry_at=timezone.now() - deletions.INTERRUPTED_AFTER)
    tasks.sweep()
    wait_for_chores()
    assert Entry.objects.count() == Session.objects.count() == 0


@pytest.mark.skipif("config.getoption('database') == 'postgres'", reason="tokens are deleted with their row")
def test_tokens_that_cannot_be_computed_are_removed_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "_ROWS_AT_ONCE", 2)
    session, kept = long_session(project, 5), long_session(project, 1)
    ids = list(SearchStep.objects.filter(session=session).values_list("pk", flat=True))
    SearchStep.objects.filter(pk__in=ids[:3]).update(checksum=1)  # as another version computed it
    SearchStep.objects.get(pk=ids[3]).delete()  # as a replaced row
    assert stored_tokens(ids).keys() == set(ids)
    assert "word3" in stored_tokens(ids)[ids[3]].split()
    purge(project, [session.pk], days_ago(-1))
    assert stored_tokens(ids) == {}
    assert len(words_of_session(kept.pk)) == 1
