"""``playhead purge`` asks before it deletes."""

import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.models import AuditRecord, Entry, Session
from historyapp.running_servers import announced
from historyapp.services import retention
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from historyapp.services.transactions import gives_way
from tests.commands.conftest import Run


@pytest.fixture
def old(db: None) -> UUID:
    """A session of two entries that was archived ten days ago."""
    project = default_project()
    session = create_session(project, names={"title": "old"})
    append(project, session.pk, [EntryDraft(ModelInput(content=text)) for text in "ab"])
    change_session(project, session.pk, {"status": "archived"})
    AuditRecord.objects.update(created_at=timezone.now() - timedelta(days=10))
    return session.pk


def test_a_session_archived_long_ago_is_deleted(run: Run, old: UUID) -> None:
    ran = run("purge", "--archived-before", 9, "--yes")
    assert ran.out == f"{old} old\n1 session and 2 entries deleted.\n"
    assert not Session.objects.exists()
    assert not Entry.objects.exists()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_purge_gives_a_running_server_its_turn(
    run: Run, old: UUID, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_running: bool
) -> None:
    """Each session takes several transactions, and writers of other processes only poll for SQLite's lock."""
    settings.PLAYHEAD_HOME = tmp_path
    seen: list[bool] = []

    def record() -> int:
        seen.append(gives_way.get())
        return 0

    monkeypatch.setattr("historyapp.management.commands.purge.delete_hidden_sessions", record)
    with announced(tmp_path, "http://localhost:8000") if is_running else nullcontext():
        assert run("purge", "--archived-before", 9, "--yes").error == ""
    assert seen == [is_running]


def test_a_session_archived_recently_stays(run: Run, old: UUID) -> None:
    ran = run("purge", "--archived-before", 11, "--yes")
    assert ran.out == "No session was archived 11 days ago or earlier.\n"
    assert Entry.objects.count() == 2


@pytest.mark.parametrize(("answer", "left"), [("yes", 0), ("y", 2), ("", 2), ("no", 2)])
def test_only_the_answer_yes_deletes(
    run: Run, old: UUID, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    ran = run("purge", "--archived-before", 9)
    assert Entry.objects.count() == left
    assert ran.error == ("Nothing was deleted." if left else "")


def test_nothing_is_deleted_without_a_terminal(run: Run, old: UUID) -> None:
    assert run("purge", "--archived-before", 9).error.startswith("Standard input is not a terminal.")
    assert Entry.objects.count() == 2


def test_the_minimum_age_is_required(run: Run) -> None:
    assert "--archived-before" in run("purge", "--yes").error
    assert "is not a number of days" in run("purge", "--archived-before=-3").error


def test_a_fork_that_blocks_a_session_is_named(run: Run, old: UUID) -> None:
    child = fork(default_project(), old, title="the\nother way")
    ran = run("purge", "--archived-before", 9, "--yes")
    assert ran.out == (
        f"{old} old stays: it shares its entries with {child.pk} (live) the\\nother way. "
        "To delete it, archive these forks too.\n"
    )
    assert Entry.objects.count() == 2


def test_an_interrupted_deletion_is_completed(run: Run, old: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(retention, "delete_hidden", interrupt)
        with pytest.raises(KeyboardInterrupt):
            retention.purge(default_project(), [old], timezone.now())
    assert Entry.objects.count() == 2
    ran = run("purge", "--archived-before", 11, "--yes")
    assert ran.out.startswith("Completed the interrupted deletion of 1 session.\n")
    assert Entry.objects.count() == Session.objects.count() == 0


def test_the_project_of_interrupted_deletions_has_no_name_to_choose(run: Run, old: UUID) -> None:
    run("purge", "--archived-before", 9, "--yes")
    assert "The projects are: Default." in run("purge", "--archived-before", 9, "--project", "x").error
