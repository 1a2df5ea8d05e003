"""The upgrade removes summary models that earlier versions took from imported files."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from historyapp.models import AuditRecord, Session
from tests.models.older_rows import insert_project, insert_sessions

BEFORE, AFTER = "0055_due_by_project", "0056_summary_models_of_imports"
PAID = {"llm_name": "gpt-5-pro", "max_tokens": 5000}


class Older:
    """Inserts sessions of an earlier version."""

    def __init__(self) -> None:
        self.project = insert_project("ours")
        state = MigrationExecutor(connection).loader.project_state(("historyapp", BEFORE))
        self._sources: Any = state.apps.get_model("historyapp", "ImportSource").objects
        self._sessions: Any = state.apps.get_model("historyapp", "Session").objects

    def session(self, settings: dict[str, Any], **columns: Any) -> Session:
        session = Session(project=self.project, settings=settings, revision=7, **columns)
        insert_sessions([session])
        return session

    def imported(self, settings: dict[str, Any], format: str = "playhead_jsonl", **columns: Any) -> Session:
        session = self.session(settings, **columns)
        self._sources.create(
            project_id=self.project.pk, session_id=session.pk, format=format, source_id=str(session.pk)
        )
        return session

    def stored(self, sessions: Sequence[Session]) -> list[tuple[dict[str, Any], int]]:
        rows = {row.pk: (row.settings, row.revision) for row in self._sessions.all()}
        return [rows[session.pk] for session in sessions]


@pytest.fixture
def ours(older: Callable[[str], None]) -> Older:
    older(BEFORE)
    return Older()


def migrate(name: str = AFTER) -> None:
    call_command("migrate", "historyapp", name, verbosity=0)


def test_a_paid_model_is_removed_from_imports_and_from_all_their_forks(ours: Older) -> None:
    imported = ours.imported(PAID)
    fork = ours.session({**PAID, "policy": "masked"}, forked_from=imported)
    free_fork = ours.session({"llm_name": "local"}, forked_from=fork)
    fork_of_forks = ours.session({"llm_name": "anthropic:claude-opus-4-8"}, forked_from=free_fork)
    subagent = ours.imported({"llm_name": "gpt-5-pro"}, spawned_by=imported)
    migrate()
    assert ours.stored([imported, fork, free_fork, fork_of_forks, subagent]) == [
        ({"max_tokens": 5000}, 8),
        ({"max_tokens": 5000, "policy": "masked"}, 8),
        ({"llm_name": "local"}, 7),
        ({}, 8),
        ({}, 8),
    ]
    records = AuditRecord.objects.filter(project=ours.project, actor="upgrade")
    assert {record.session: record.detail for record in records} == {
        imported.pk: {"was": "gpt-5-pro"},
        fork.pk: {"was": "gpt-5-pro"},
        fork_of_forks.pk: {"was": "anthropic:claude-opus-4-8"},
        subagent.pk: {"was": "gpt-5-pro"},
    }


def test_models_that_no_file_can_have_set_are_kept(ours: Older) -> None:
    of_the_api = ours.session(PAID)
    kept = [
        of_the_api,
        ours.session(PAID, forked_from=of_the_api),
        ours.imported(PAID, format="claude_code"),
        ours.imported({"llm_name": "local", "summary_instruction": 'Keep "llm_name".'}),
        ours.session(PAID, spawned_by=ours.imported({})),
    ]
    before = ours.stored(kept)
    migrate()
    assert ours.stored(kept) == before
    assert not AuditRecord.objects.exists()


def test_many_sessions_are_changed_in_batches_and_going_back_changes_nothing(ours: Older) -> None:
    parent = ours.imported(PAID)
    sessions = [parent]
    for _ in range(550):
        sessions.append(Session(project=ours.project, settings=PAID, forked_from=sessions[-1]))
    insert_sessions(sessions[1:])
    migrate()
    assert {str(settings) for settings, _ in ours.stored(sessions)} == {"{'max_tokens': 5000}"}
    migrate(BEFORE)
    assert {str(settings) for settings, _ in ours.stored(sessions)} == {"{'max_tokens': 5000}"}
    migrate()
    assert AuditRecord.objects.count() == 551
