"""Sub-agents' sessions know the step that started them, in whichever order transcripts are imported."""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.core.importers.base import Source
from historyapp.models import Episode, ImportSource, Project, Session, StaleOutcomes
from historyapp.models.first_inputs import first_inputs
from historyapp.models.history import History
from historyapp.services import subagents
from historyapp.services.append import append
from historyapp.services.imports import sessions
from historyapp.services.imports.files import import_file
from historyapp.services.outcomes import compute_outcomes
from historyapp.services.overview import subagents_of
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import StartingToolCall, create_session
from tests.core.importers import codex_lines as codex
from tests.core.importers.claude_lines import S, answer, assistant, says, tool_call, user
from tests.services.drafts import act, ok
from tests.shared import SHARED, needs

CORPUS = "corpus/claude_code/entire__5b_5a73f2998f_0.jsonl"


def imported(project: Project, name: str, *lines: dict[str, Any]) -> None:
    text = "\n".join(map(json.dumps, lines))
    assert import_file(project, Source(name, io.BytesIO(text.encode()))).error == ""


def main(**result: Any) -> tuple[str, list[dict[str, Any]]]:
    """A run whose second step starts a sub-agent."""
    task = tool_call("t2", "Task", description="Look around", prompt="find it")
    lines = [
        user(1, None, "go"),
        assistant(2, 1, tool_call("t1")),
        answer(3, 2, "t1"),
        assistant(4, 3, task),
        answer(5, 4, "t2", "found", **result),
        assistant(6, 5, says("done")),
    ]
    return f"{S}.jsonl", lines


def sub(first: str = "find it") -> tuple[str, list[dict[str, Any]]]:
    lines = [user(11, None, first), assistant(12, 11, tool_call("u")), answer(13, 12, "u", "found")]
    return "agent-a1.jsonl", [{**line, "isSidechain": True, "agentId": "a1"} for line in lines]


@pytest.mark.parametrize("is_child_first", [False, True])
@pytest.mark.parametrize("by", ["agent id", "task"])
def test_the_call_is_found_by_the_agent_s_id_or_its_task(
    project: Project, by: str, is_child_first: bool
) -> None:
    files = (
        [main(toolUseResult={"agentId": "a1"}), sub("other words")] if by == "agent id" else [main(), sub()]
    )
    for name, lines in files[::-1] if is_child_first else files:
        imported(project, name, *lines)
    child = Session.objects.get(spawned_by__isnull=False)
    step = Episode.objects.get(session=child.spawned_by, number=2)
    assert child.spawned_position == step.first_position


def test_the_time_of_a_sub_agent_that_is_a_fork_is_that_since_the_fork(
    project: Project, session: Session
) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    append(project, session.pk, [each._replace(created_at=begin) for each in (act(), ok())])
    child = fork(project, session.pk)
    times = begin + timedelta(hours=1), begin + timedelta(hours=1, seconds=5)
    drafts = zip((act(), ok()), times, strict=True)
    append(project, child.pk, [each._replace(created_at=time) for each, time in drafts])
    Session.objects.filter(pk=child.pk).update(spawned_by=session)
    assert [one.milliseconds for one in subagents_of(session)] == [5_000]


@pytest.mark.parametrize("by", ["thread", "task"])
def test_a_thread_of_codex_is_found_by_the_result_that_names_it_or_by_its_task(
    project: Project, by: str
) -> None:
    child = "019c8a4d-0000-7000-8000-000000000002"
    tool_call = {"call_id": "c2", "name": "spawn_agent", "arguments": '{"message": "find it"}'}
    result = codex.output("c2", json.dumps({"agent_id": child if by == "thread" else "unknown"}))
    first = [codex.meta(), codex.asks("go"), codex.tool_call("c1"), codex.output("c1")]
    imported(project, "rollout-1.jsonl", *first, codex.item("function_call", **tool_call), result)
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": codex.S}}}
    words = [codex.asks("<environment_context>here</environment_context>"), codex.asks("find it")]
    lines = [codex.meta(id=child, source=spawn), *(words if by == "task" else []), codex.says("done")]
    imported(project, "rollout-2.jsonl", *lines)
    session = Session.objects.get(spawned_by__isnull=False)
    step = Episode.objects.get(session=session.spawned_by, number=2)
    assert (step.kind, session.spawned_position) == ("agent", step.first_position)


def test_sub_agents_of_an_earlier_version_are_found_by_the_worker(project: Project) -> None:
    for name, lines in (main(), sub()):
        imported(project, name, *lines)
    Session.objects.update(spawned_position=None)
    StaleOutcomes.objects.bulk_create([StaleOutcomes(session=one) for one in Session.objects.all()])
    assert compute_outcomes(lambda: False) == 2
    assert Session.objects.get(spawned_by__isnull=False).spawned_position is not None


def test_a_sub_agent_without_a_known_call_is_not_linked_to_a_call(project: Project) -> None:
    imported(project, main()[0], *main()[1])
    imported(project, sub("other words")[0], *sub("other words")[1])
    child = Session.objects.get(spawned_by__isnull=False)
    assert child.spawned_position is None


def test_a_call_that_is_recorded_later_is_found_when_the_file_has_grown(project: Project) -> None:
    name, lines = main()
    imported(project, sub()[0], *sub()[1])
    imported(project, name, *lines[:3])
    child = Session.objects.get(spawned_by__isnull=False)
    assert child.spawned_position is None
    known = child.revision
    imported(project, name, *lines)
    child.refresh_from_db()
    assert child.spawned_position is not None
    assert child.revision > known, "cached responses are stale"


@needs(CORPUS)
def test_a_search_for_calls_loads_few_bytes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    name, lines = main()
    lines[1] = assistant(2, 1, tool_call("t1", "Task", prompt="another"))
    lines[2] = answer(3, 2, "t1", "x" * 20_000)
    child_name, child = sub()
    for limit, is_found in ((10_000, False), (100_000, True)):
        monkeypatch.setattr(subagents, "_MAX_READ", limit)
        imported(project, name, *lines)
        imported(project, child_name, *child)
        position = Session.objects.get(title="find it").spawned_position
        assert (position is not None) == is_found


def test_sub_agents_of_a_real_run_are_found(project: Project) -> None:
    with (SHARED / CORPUS).open("rb") as stream:
        import_file(project, Source("main.jsonl", stream))
    children = Session.objects.filter(spawned_by__isnull=False).order_by("spawned_position")
    steps = Episode.objects.filter(kind="agent").order_by("number")
    assert [child.spawned_position for child in children] == [step.first_position for step in steps]
    assert len(children) == 2


def updates_by_transaction(captured: CaptureQueriesContext, column: str) -> list[int]:
    """The numbers of statements that set a column of sessions, for each outermost transaction."""
    counts = [0]
    depth = 0
    for query in captured:
        sql = query["sql"]
        depth += sql.startswith("SAVEPOINT")
        depth -= sql.startswith("RELEASE SAVEPOINT")
        if sql.startswith("RELEASE SAVEPOINT") and depth == 0:
            counts.append(0)
        counts[-1] += f'SET "{column}"' in sql
    return [count for count in counts if count]


def add_unlinked(project: Project, number: int) -> list[Session]:
    """Imported sub-agents of a session that is not imported yet."""
    children = [create_session(project) for _ in range(number)]
    for index, child in enumerate(children):
        ImportSource.objects.create(
            project=project, format="claude_code", source_id=f"c{index}", session=child, spawned_by=S
        )
    return children


def test_a_parent_that_is_imported_after_many_sub_agents_is_linked_in_small_transactions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LINKED_AT_ONCE", 5)
    before = {child.pk: child.revision for child in add_unlinked(project, 12)}
    name, lines = main()
    with CaptureQueriesContext(connection) as captured:
        imported(project, name, *lines)
    linked = Session.objects.filter(spawned_by__isnull=False)
    assert {row.pk: row.revision for row in linked} == {id: revision + 1 for id, revision in before.items()}
    assert updates_by_transaction(captured, "spawned_by_id") == [1, 1, 1]


def test_an_import_links_the_sub_agents_that_an_interrupted_one_did_not_reach(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = add_unlinked(project, 4)
    name, lines = main()
    with monkeypatch.context() as interrupted:
        interrupted.setattr(sessions, "_link_children", lambda source, ids: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            imported(project, name, *lines)
    assert not Session.objects.filter(spawned_by__isnull=False).exists()
    imported(project, name, *lines)
    assert set(Session.objects.filter(spawned_by__isnull=False)) == set(children)


def test_sub_agents_of_one_call_are_linked_in_few_statements(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL, each statement of a transaction that changes the same row takes longer."""
    name, lines = main()
    imported(project, name, *lines)
    parent = Session.objects.get()
    for _ in range(7):
        child = create_session(project, starter=StartingToolCall(parent))
        append(project, child.pk, [EntryDraft(ModelInput(content="find it"))])
    known = Session.objects.get(pk=parent.pk).revision
    monkeypatch.setattr(subagents, "LINKED_AT_ONCE", 3)
    with CaptureQueriesContext(connection) as captured:
        subagents.link_subagents([parent.pk])
    assert updates_by_transaction(captured, "spawned_position") == [1, 1, 1]
    assert Session.objects.get(pk=parent.pk).revision == known + 3
    assert not Session.objects.filter(spawned_by=parent, spawned_position=None).exists()


def test_only_the_newest_sub_agents_without_a_call_are_searched(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have thousands, and each import of one of them would search all."""
    name, lines = main()
    imported(project, name, *lines)
    parent = Session.objects.get()
    for _ in range(4):
        child = create_session(project, starter=StartingToolCall(parent))
        append(project, child.pk, [EntryDraft(ModelInput(content="find it"))])
    monkeypatch.setattr(subagents, "MAX_UNLINKED", 3)
    subagents.link_subagents([parent.pk])
    children = Session.objects.filter(spawned_by=parent).order_by("-pk")
    assert [child.spawned_position is not None for child in children] == [True, True, True, False]
    subagents.link_subagents([parent.pk])
    assert not children.filter(spawned_position=None).exists()


def some_agents(project: Project, count: int, task: str = "find it") -> Session:
    """A session with a call that starts sub-agents, and this many sub-agents with a task."""
    parent = create_session(project)
    append(project, parent.pk, [act("Task", prompt="find it")])
    for _ in range(count):
        child = create_session(project)
        append(project, child.pk, [EntryDraft(ModelInput(content=task))])
        Session.objects.filter(pk=child.pk).update(spawned_by=parent)
    return parent


def test_the_statements_of_an_import_do_not_grow_with_sub_agents_without_a_call(project: Project) -> None:
    numbers = []
    for count in (2, 40):
        parent = some_agents(project, count, task="other words")
        with CaptureQueriesContext(connection) as queries:
            subagents.link_subagents([parent.pk])
        numbers.append(len(queries))
        assert not Session.objects.filter(spawned_position__isnull=False).exists()
    assert numbers[0] == numbers[1]


def test_a_worker_links_the_sub_agents_beyond_the_limit(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subagents, "MAX_UNLINKED", 4)
    parent = some_agents(project, 10)
    subagents.link_subagents([parent.pk])
    unlinked = Session.objects.filter(spawned_by=parent, spawned_position=None)
    assert unlinked.count() == 6
    assert compute_outcomes(lambda: False) > 0
    assert (unlinked.count(), StaleOutcomes.objects.exists()) == (0, False)


def test_a_worker_does_not_search_again_for_calls_that_were_not_found(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subagents, "MAX_UNLINKED", 4)
    parent = some_agents(project, 10, task="other words")
    subagents.link_subagents([parent.pk])
    assert not StaleOutcomes.objects.exists()


def test_the_first_inputs_of_sessions_are_those_of_their_histories(project: Project) -> None:
    plain, rewound, empty, long = (create_session(project) for _ in range(4))
    inputs = [EntryDraft(ModelInput(content=f"input {number}")) for number in range(8)]
    append(project, plain.pk, [act("ls"), *inputs])
    append(project, rewound.pk, [*inputs[:3], act("ls"), ok()])
    rewind(project, rewound.pk, Target(to_position=1))
    append(project, rewound.pk, inputs[3:])
    branch = fork(project, rewound.pk, at_position=8)
    for _ in range(70):
        append(project, long.pk, [*inputs[:1], act("ls")])
        rewind(project, long.pk, Target(to_position=Session.objects.get(pk=long.pk).head))
    ids = [plain.pk, rewound.pk, empty.pk, branch.pk]
    sessions_read = list(Session.objects.filter(pk__in=[*ids, long.pk]).order_by("pk"))
    found: dict[UUID, list[tuple[int, object]]] = {session.pk: [] for session in sessions_read}
    for first in first_inputs(sessions_read, 5):
        found[first.session].append((first.position, first.body["content"]))
    for session in sessions_read:
        entries = History(session).entries(kinds=("model_input",), limit=5)
        expected = [(entry.position, entry.body["content"]) for entry in entries]
        assert sorted(found[session.pk])[:5] == expected
    assert [len(found[id]) for id in ids] == [5, 6, 0, 3]
