"""Which entries of a step with many tool calls are read for a page that shows some of the calls."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.rendering.step import CALLS, load_step
from historyapp.core.entries import EntryDraft, ModelOutput, Review, ToolCall, ToolResult, ToolResults
from historyapp.core.recorded_diffs import RECORDED_DIFFS
from historyapp.models import Project, Session, sql, step_entries
from historyapp.models.history import History
from historyapp.models.visibility import EVERYTHING, Visibility
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, ok, tool_calls

AMOUNT = 70
IDS = [str(number) for number in range(AMOUNT)]
START, TIMED = datetime(2026, 1, 31, tzinfo=UTC), "Wall time: 0.5 seconds\nOutput:\n"
ASKING = ModelOutput(
    tool_calls=tuple(
        ToolCall(id=id, name="exec_command", arguments={"sandbox_permissions": "require_escalated"})
        for id in IDS
    )
)


def results(*ids: str | None, overall: str | None = None) -> EntryDraft:
    found = tuple(ToolResult(tool_call_id=id, status="success", outputs=f"of {id}") for id in ids)
    return draft(ToolResults(results=found, overall=overall))


def mixed() -> list[EntryDraft]:
    """Results in another order than their calls, some together, with remarks, reviews and another rewind."""
    order = random.Random(1).sample(IDS, AMOUNT - 5)
    drafts = [results(id, overall=f"Seen {id}." if int(id) % 2 else None) for id in order[:-9]]
    drafts += [results(*order[-9:-4]), results(*order[-4:], overall="\ud800")]
    return [*drafts[:30], draft(Review(analysis="half")), *drafts[30:], draft(Review(analysis="all"))]


STEPS: dict[str, list[EntryDraft]] = {
    "in order": [tool_calls(*IDS), *(results(id) for id in IDS)],
    "mixed": [tool_calls(*IDS), *mixed()],
    "repeated ids": [tool_calls(*IDS, *IDS[:5]), *(results(id) for id in IDS)],
    "late": [tool_calls(*IDS), *(results(id) for id in IDS), results("3"), results("other")],
    "without ids": [tool_calls(*IDS), *(results(id) for id in IDS[:60]), results(None)],
    "together": [tool_calls(*IDS), *(results(id) for id in IDS[:50]), results("51", None)],
    "unanswered": [tool_calls(*IDS), *(results(id) for id in IDS[::3])],
    "waiting": [
        draft(body.body, START + timedelta(seconds=number))
        for number, body in enumerate([draft(ASKING), *(ok(id, TIMED) for id in IDS)])
    ],
    "text": [act(), *(results(None) for _ in IDS)],
}


@pytest.fixture
def empty(project: Project) -> Session:
    return create_session(project)


def views(session: Session) -> list[Any]:
    stored = Session.objects.get(pk=session.pk)
    histories = [History(stored, visible=visible) for visible in (EVERYTHING, Visibility(inputs=False))]
    return [load_step(history, 1, first) for history in histories for first in range(0, AMOUNT, CALLS)]


@pytest.mark.parametrize("name", STEPS)
def test_a_page_of_calls_is_the_same_as_if_all_entries_were_read(
    name: str, empty: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(empty.project, empty.pk, STEPS[name], lenient=True)
    append(empty.project, empty.pk, [act(), ok()])
    monkeypatch.setattr(step_entries, "_AT_FIRST", step_entries.MAX_ENTRIES)
    expected = views(empty)
    for at_first in (2, 10, 42):
        monkeypatch.setattr(step_entries, "_AT_FIRST", at_first)
        assert views(empty) == expected


def test_a_page_of_calls_is_the_same_in_a_long_lineage(
    empty: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = STEPS["in order"]
    append(empty.project, empty.pk, [first])
    for number, each in enumerate(others):
        append(empty.project, empty.pk, [each])
        if number % 3 == 0:
            append(empty.project, empty.pk, [results("cut off")])
            empty.refresh_from_db()
            rewind(empty.project, empty.pk, Target(to_position=empty.head - 1))
    monkeypatch.setattr(step_entries, "_AT_FIRST", step_entries.MAX_ENTRIES)
    expected = views(empty)
    monkeypatch.setattr(step_entries, "_AT_FIRST", 2)
    assert views(empty) == expected
    assert all(view.result for view in expected[-1].calls)


def test_results_of_calls_that_are_not_shown_are_not_read(
    empty: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(empty.project, empty.pk, STEPS["in order"])
    read, load = list[int](), sql._entry

    def record(row: Any, *arguments: Any) -> Any:
        read.append(row[0])
        return load(row, *arguments)

    monkeypatch.setattr(sql, "_entry", record)
    history = History(Session.objects.get(pk=empty.pk))
    assert [view.result is None for view in load_step(history, 1, 50).calls] == [False] * 20
    assert read == [*range(1, 43), *range(52, 72)]


@pytest.mark.parametrize("name", ["in order", "late"])
def test_a_step_reads_no_more_entries_than_its_limit(
    name: str, empty: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(empty.project, empty.pk, STEPS[name])
    monkeypatch.setattr(step_entries, "MAX_ENTRIES", 62)
    history = History(Session.objects.get(pk=empty.pk))
    assert [view.result is None for view in load_step(history, 1, 60).calls] == [False] + [True] * 9


def test_a_page_reads_the_metadata_that_it_shows(empty: Session) -> None:
    diff = {"added": 1, "removed": 1, "diff": "@@ -7 +7 @@\n-x\n+y"}
    edit = ToolCall(
        id="1", name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}
    )
    append(
        empty.project,
        empty.pk,
        [
            draft(ModelOutput(tool_calls=(edit,))),
            EntryDraft(ok("1").body, None, {RECORDED_DIFFS: {"1": diff}}),
        ],
    )
    (block,) = load_step(History(Session.objects.get(pk=empty.pk)), 1).calls[0].card.request
    assert block.text.startswith("@@ -7")
