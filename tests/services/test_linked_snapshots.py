"""Outputs are linked to snapshots in few statements, and long tool definitions are read before the lock."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from historyapp.core.entries import ModelOutput
from historyapp.models import Project, Session, Snapshot, TokenCorrection
from historyapp.services import append as appending
from historyapp.services.actions import register_action
from historyapp.services.append import append, lock_session
from historyapp.services.sessions import create_session
from tests.services.drafts import draft

SCHEMA = {"type": "object", "properties": {}}
FUNCTION = {"name": "read", "parameters": {**SCHEMA, "x": [[]] * 500}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
MENTION = {"name": "read", "parameters": {**SCHEMA, "example": SEARCH}}


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


def snapshots(
    session: Session, count: int, tools: Sequence[dict[str, Any]] = (FUNCTION,), model: str = "llama-9"
) -> list[str]:
    """The ids of new snapshots of 1,000 tokens."""
    rows = [
        Snapshot(
            id=uuid7(),
            session=session,
            position=0,
            policy="live",
            format="openai_chat",
            model=model,
            tools=list(tools),
            manifest={},
            estimated=1000,
        )
        for _ in range(count)
    ]
    return [str(row.pk) for row in Snapshot.objects.bulk_create(rows)]


def naming(ids: Sequence[str], billed: int = 0) -> list[Any]:
    """An output for each snapshot."""
    usage = {"input_tokens": billed} if billed else None
    return [draft(ModelOutput(text="done"), snapshot=id, usage=usage) for id in ids]


class Locked:
    """The statements of an append, before and after it locks the session."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
        with CaptureQueriesContext(connection) as captured, monkeypatch.context() as patch:
            locked_at = list[int]()

            def lock(*arguments: Any, **options: Any) -> Session:
                locked_at.append(len(captured))
                return lock_session(*arguments, **options)

            patch.setattr(appending, "lock_session", lock)
            append(*arguments)
        statements = [query["sql"].replace('"', "") for query in captured]
        self.before, self.after = statements[: locked_at[0]], statements[locked_at[0] :]


def reads_of_tools(statements: Sequence[str]) -> int:
    return sum("historyapp_snapshot.tools" in sql and sql.startswith("SELECT") for sql in statements)


@pytest.mark.parametrize(("billed", "reads"), [(0, 0), (1200, 3)])
def test_tools_are_read_before_the_session_is_locked_and_only_with_usage(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, billed: int, reads: int
) -> None:
    named = naming(snapshots(session, 3), billed)
    statements = Locked(monkeypatch, project, session.pk, named)
    assert reads_of_tools(statements.after) == 0
    assert reads_of_tools(statements.before) == reads
    assert Snapshot.objects.filter(output_position=None).count() == 0
    assert [row.calls for row in TokenCorrection.objects.all()] == ([3] if billed else [])


def test_the_reads_of_a_transaction_do_not_grow_with_its_named_snapshots(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for count in (2, 40):
        statements = Locked(monkeypatch, project, session.pk, naming(snapshots(session, count), 1200))
        counts.append(sum("historyapp_snapshot" in sql for sql in statements.after if "SELECT" in sql))
    assert counts == [1, 1]
    assert TokenCorrection.objects.get().calls == 42


def test_an_append_that_names_no_snapshot_reads_none(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = Locked(monkeypatch, project, session.pk, [draft(ModelOutput(text="done"), usage={})])
    assert not any("snapshot" in sql for sql in (*statements.before, *statements.after))


def test_the_first_output_that_names_a_snapshot_is_linked(project: Project, session: Session) -> None:
    (id,) = snapshots(session, 1)
    first, second = naming([id], 1100)[0], naming([id], 1500)[0]
    append(project, session.pk, [draft(ModelOutput(text="other")), first, second])
    append(project, session.pk, naming([id.upper()], 1900))
    row = Snapshot.objects.get(pk=id)
    assert (row.output_position, row.billed) == (2, 1100)
    assert (TokenCorrection.objects.get().calls, TokenCorrection.objects.get().theirs) == (1, 1100)


def test_a_snapshot_that_another_append_linked_meanwhile_is_not_linked_again(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id,) = snapshots(session, 1)

    def lock(*arguments: Any, **options: Any) -> Session:
        monkeypatch.setattr(appending, "lock_session", lock_session)
        append(project, session.pk, naming([id], 1100))
        return lock_session(*arguments, **options)

    monkeypatch.setattr(appending, "lock_session", lock)
    append(project, session.pk, naming([id], 1300))
    row = Snapshot.objects.get(pk=id)
    assert (row.output_position, row.billed) == (1, 1100)
    assert (TokenCorrection.objects.get().calls, TokenCorrection.objects.get().theirs) == (1, 1100)


@pytest.mark.parametrize(
    ("tools", "calls"), [([], 1), ([FUNCTION], 1), ([MENTION], 1), ([SEARCH], 0), ([FUNCTION, SEARCH], 0)]
)
def test_only_usage_without_tools_of_the_provider_corrects_estimates(
    project: Project, session: Session, tools: list[dict[str, Any]], calls: int
) -> None:
    (id,) = snapshots(session, 1, tools)
    register_action(project, session.pk, naming([id], 1100)[0])
    assert Snapshot.objects.get(pk=id).billed == 1100
    assert TokenCorrection.objects.count() == calls


def test_each_model_of_an_append_is_corrected(project: Project, session: Session) -> None:
    ids = [*snapshots(session, 2, model="llama-9"), *snapshots(session, 1, model="other-1")]
    append(project, session.pk, naming(ids, 1200))
    rows = TokenCorrection.objects.order_by("model").values_list("model", "calls", "ours", "theirs", "missed")
    assert list(rows) == [("llama-9", 2, 2000, 2400, 400), ("other-1", 1, 1000, 1200, 200)]
