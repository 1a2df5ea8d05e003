"""Retention deletes whole archived sessions, except those that share entries with a kept fork."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput
from historyapp.models import AuditRecord, Entry, Episode, Project, RetentionPass, Session, Summary
from historyapp.services import deletions, retention, short_transactions
from historyapp.services.append import append
from historyapp.services.idempotency import StoredResponse, carry_out_once
from historyapp.services.projections import parents_first, rebuild
from historyapp.services.retention import Purged, blocked_by_forks, erase, purge, purgeable
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import StartingToolCall, change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.services.transactions import writing

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def session_of(project: Project) -> Session:
    """Two entries, one step with a summary."""
    session = create_session(project)
    append(project, session.pk, [EntryDraft(ModelInput(content="go")), EntryDraft(ModelOutput(text="done"))])
    add_summary(project, session.pk, (1, 1), SummaryText("did it"))
    return session


def archive(session: Session, days_ago: int = 10) -> None:
    change_session(session.project, session.pk, {"status": "archived"})
    records = AuditRecord.objects.filter(session=session.pk, action="status: archived")
    records.update(created_at=timezone.now() - timedelta(days=days_ago))


def days_ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def purge_all(project: Project, days: int) -> Purged:
    limit = days_ago(days)
    return purge(project, [session.pk for session in purgeable(project, limit)], limit, actor="test")


def ids(sessions: list[Session]) -> set[UUID]:
    return {session.pk for session in sessions}


def test_a_session_is_deleted_with_all_its_rows(project: Project) -> None:
    archive(session_of(project))
    assert purge_all(project, 9) == Purged(sessions=1, entries=2)
    for model in (Session, Entry, Episode, Summary, RetentionPass):
        assert model._default_manager.count() == 0, model


def test_a_session_that_is_not_archived_stays_at_any_age(project: Project) -> None:
    Session.objects.filter(pk=session_of(project).pk).update(last_entry_at=days_ago(1000))
    assert purgeable(project, days_ago(9)) == []


def test_the_age_counts_from_the_last_archiving(project: Project) -> None:
    session = session_of(project)
    archive(session, days_ago=100)
    change_session(project, session.pk, {"status": "live"})
    change_session(project, session.pk, {"status": "archived"})
    assert purgeable(project, days_ago(9)) == []
    assert ids(purgeable(project, days_ago(0))) == {session.pk}


def test_without_an_audit_record_the_age_counts_from_the_newest_entry(project: Project) -> None:
    session = session_of(project)
    Session.objects.filter(pk=session.pk).update(status="archived", last_entry_at=days_ago(10))
    assert purgeable(project, days_ago(11)) == []
    assert ids(purgeable(project, days_ago(9))) == {session.pk}


def test_a_session_stays_while_a_fork_shares_its_entries(project: Project) -> None:
    parent = session_of(project)
    child = fork(project, parent.pk)
    archive(parent)
    assert purge_all(project, 9) == Purged(sessions=0, entries=0)
    archive(child)
    assert purge_all(project, 9) == Purged(sessions=2, entries=2)


def test_a_grandparent_stays_while_a_grandchild_lives(project: Project) -> None:
    first = session_of(project)
    second = fork(project, first.pk)
    third = fork(project, second.pk)
    archive(first)
    archive(second)
    assert purgeable(project, days_ago(9)) == []
    archive(third)
    assert [session.pk for session in purgeable(project, days_ago(9))] == [third.pk, second.pk, first.pk]


def test_each_session_of_a_chain_of_forks_is_looked_at_a_few_times(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Counter[str]()

    class CountingForks(defaultdict[UUID | None, dict[UUID, Session]]):
        def __getitem__(self, id: UUID | None) -> dict[UUID, Session]:
            lookups["forks"] += 1
            return super().__getitem__(id)

    monkeypatch.setattr(retention, "defaultdict", CountingForks)
    chain = list[Session]()
    for _ in range(60):
        parent = chain[-1] if chain else None
        chain.append(
            Session(project=project, status="archived", last_entry_at=days_ago(10), forked_from=parent)
        )
    Session.objects.bulk_create(chain)
    assert [session.pk for session in purgeable(project, days_ago(9))] == [one.pk for one in chain[::-1]]
    assert lookups["forks"] <= 3 * len(chain)


def test_a_purge_of_a_fork_does_not_change_its_parent(project: Project) -> None:
    parent = session_of(project)
    archive(fork(project, parent.pk))
    assert purge_all(project, 9).sessions == 1
    (left,) = parents_first()
    assert left.pk == parent.pk
    assert rebuild(left, check_only=True).differences == []


def test_a_session_that_changed_since_the_preview_is_not_deleted(project: Project) -> None:
    session = session_of(project)
    archive(session)
    change_session(project, session.pk, {"status": "live"})
    assert purge(project, [session.pk], days_ago(9)) == Purged(0, 0)


def test_sessions_of_another_project_stay(project: Project) -> None:
    session = session_of(project)
    archive(session)
    stranger = Project.objects.create(name="Charlie's")
    assert purgeable(stranger, days_ago(9)) == []
    assert purge(stranger, [session.pk], days_ago(9)) == Purged(0, 0)
    assert Entry.objects.count() == 2


def test_deletions_are_audited_with_the_actor(project: Project) -> None:
    session = session_of(project)
    archive(session)
    purge_all(project, 9)
    record = AuditRecord.objects.get(action="purge")
    assert (record.actor, record.session) == ("test", session.pk)
    assert record.detail == {"entries": 2, "steps": 1}


def test_audit_records_of_a_deleted_session_keep_no_text_of_it(project: Project) -> None:
    session, kept = session_of(project), session_of(project)
    for one in (session, kept):
        rewind(project, one.pk, Target(to_step=0), reason="the password hunter2 was in it", actor="alice")
    archive(session)
    purge_all(project, 9)
    records = AuditRecord.objects.filter(session=session.pk)
    assert {(record.actor, record.action) for record in records} >= {("alice", "rewind"), ("test", "purge")}
    assert not [record.detail for record in records if "hunter2" in str(record.detail)]
    assert "hunter2" in str(AuditRecord.objects.get(session=kept.pk, action="rewind").detail)


def test_no_table_holds_a_deleted_sessions_text(project: Project) -> None:
    """Every text column of the database is searched, so that a new table cannot be forgotten."""
    marker = "zebra-4711"
    session = create_session(project, names={"title": f"about {marker}"})
    append(
        project, session.pk, [EntryDraft(ModelInput(content=marker)), EntryDraft(ModelOutput(text=marker))]
    )
    add_summary(project, session.pk, (1, 1), SummaryText(marker))
    rewind(project, session.pk, Target(to_step=0), reason=marker, actor="alice")
    response = StoredResponse(201, marker, frozenset([session.pk]))
    carry_out_once(project, "a-key", "fingerprint", lambda: response)
    assert tables_with(marker) >= {
        "historyapp_session",
        "historyapp_auditrecord",
        "historyapp_idempotencykey",
    }
    archive(session)
    purge_all(project, 9)
    assert tables_with(marker) == set()


def tables_with(text: str) -> set[str]:
    """The tables with a row whose text holds ``text``; bodies this short are stored uncompressed."""
    tables = set()
    with connection.cursor() as cursor:
        names = set(connection.introspection.table_names(cursor))
        names.discard("historyapp_searchwords")  # a view of the tables beside it, which cannot be listed
        one = "SELECT '{0}' WHERE EXISTS (SELECT 1 FROM \"{0}\")"
        cursor.execute(" UNION ALL ".join(map(one.format, names)))
        for (table,) in cursor.fetchall():  # most tables have no rows
            cursor.execute(f'SELECT * FROM "{table}"')
            if any(text in str(row) for row in cursor.fetchall()):
                tables.add(table)
    return tables


def test_a_fork_that_stays_is_named_with_the_session_that_it_blocks(project: Project) -> None:
    parent = session_of(project)
    staying, going = fork(project, parent.pk), fork(project, parent.pk)
    archive(parent)
    archive(going)
    (blocked,) = blocked_by_forks(project, days_ago(9))
    assert (blocked.session.pk, ids(blocked.forks)) == (parent.pk, {staying.pk})
    archive(staying)
    assert blocked_by_forks(project, days_ago(9)) == []


def test_the_log_is_protected_again_after_a_purge(project: Project) -> None:
    archive(session_of(project))
    kept = session_of(project)
    purge_all(project, 9)
    with pytest.raises(DatabaseError), transaction.atomic():
        Entry.objects.filter(session=kept)._raw_delete("default")
    assert Entry.objects.count() == 2


def test_sub_agents_of_a_deleted_session_are_detached_in_short_transactions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = session_of(project)
    children = [create_session(project, starter=StartingToolCall(parent)) for _ in range(5)]
    archive(parent)
    parent.refresh_from_db()
    known = dict(Session.objects.filter(spawned_by=parent).values_list("pk", "revision"))
    Session.objects.filter(spawned_by=parent).update(spawned_position=1)
    changed = list[int]()

    @contextmanager
    def counted() -> Iterator[None]:
        before = Session.objects.filter(spawned_by=parent).count()
        with writing():
            yield
        changed.append(before - Session.objects.filter(spawned_by=parent).count())

    monkeypatch.setattr(deletions, "_SUBAGENTS_AT_ONCE", 2)
    monkeypatch.setattr(short_transactions, "writing", counted)
    erase(parent)
    assert [count for count in changed if count] == [2, 2, 1]
    assert Session.objects.filter(project=project).count() == len(children)
    assert all(child.revision > known[child.pk] for child in Session.objects.filter(project=project))
    assert not Session.objects.filter(spawned_position__isnull=False).exists()


def change_before_hiding(monkeypatch: pytest.MonkeyPatch, project: Project, changes: dict[str, Any]) -> None:
    """Somebody else's change comes between the choice of a session and its deletion."""
    hide = retention._hide

    def hide_too_late(session: Session, *arguments: Any) -> Session | None:
        change_session(project, session.pk, changes)
        return hide(session, *arguments)

    monkeypatch.setattr(retention, "_hide", hide_too_late)


def test_a_session_that_is_unarchived_before_it_is_hidden_keeps_its_sub_agents(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = session_of(project)
    create_session(project, starter=StartingToolCall(parent))
    archive(parent)
    change_before_hiding(monkeypatch, project, {"status": "finished"})
    assert purge_all(project, 9).sessions == 0
    assert Session.objects.filter(spawned_by=parent).count() == 1


def test_no_audit_record_is_searched_for_under_the_lock(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other changes wait for the lock, and a project may have a million records."""
    archive(session := session_of(project))
    session.refresh_from_db()
    under_lock = list[str]()

    def note(execute: Any, sql: str, *arguments: Any) -> Any:
        under_lock.append(sql)
        return execute(sql, *arguments)

    @contextmanager
    def noted() -> Iterator[None]:
        with writing(), connection.execute_wrapper(note):
            yield

    monkeypatch.setattr(retention, "writing", noted)
    erase(session)
    assert any(sql.startswith("SELECT") for sql in under_lock)
    assert not any(sql.startswith("SELECT") and "auditrecord" in sql for sql in under_lock)


def test_a_session_that_is_changed_before_it_is_hidden_is_deleted_if_it_still_may_be(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(session := session_of(project))
    change_before_hiding(monkeypatch, project, {"title": "changed"})
    assert purge_all(project, 9).sessions == 1
    assert not Session.objects.filter(pk=session.pk).exists()
