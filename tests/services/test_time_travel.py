"""Appending, rewinding and forking at random, compared with a model that keeps every path as a plain list.

For every position that was ever the head, every read must give the state of the session at that time.
"""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.entries import (
    Entry,
    EntryDraft,
    ModelInput,
    ModelOutput,
    Review,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.episodes import group_episodes
from historyapp.core.excerpts import excerpts_of
from historyapp.core.projection import Step, Tail, advance
from historyapp.models import Project, Session
from historyapp.models.episodes import columns
from historyapp.models.history import History
from historyapp.models.landmarks import error, failure, has_later_failure
from historyapp.services.append import append
from historyapp.services.projections import parents_first, rebuild
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rewinds then need pointers of several levels."""
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 2)


bodies = st.one_of(
    st.builds(ModelInput, content=st.sampled_from(["do it", "again"])),
    st.builds(lambda: ModelOutput(text="done")),
    st.builds(lambda: ModelOutput(use_tool=UseTool(name="bash", arguments={"command": "make"}))),
    st.builds(lambda: ModelOutput(tool_calls=(ToolCall(id="a", name="ls"), ToolCall(id="b", name="cat")))),
    st.builds(
        lambda id, status, outputs: ToolResults(
            results=(ToolResult(tool_call_id=id, status=status, outputs=outputs, reason="y"),)
        ),
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["success", "error", "interrupted_by_human"]),
        st.sampled_from(["x", "make: *** [all] Error 2"]),
    ),
    st.builds(lambda: Review(score=1.0)),
)
moves = st.one_of(
    st.tuples(st.just("append"), st.lists(bodies, min_size=1, max_size=5)),
    st.tuples(st.just("append"), st.lists(bodies, min_size=1, max_size=5)),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.just("fork"), st.floats(0, 1)),
    st.tuples(st.just("undo"), st.floats(0, 1)),
)


@dataclass
class Plain:
    """The expected session: the live entries for each head that it ever had."""

    paths: dict[int, list[Entry]] = field(default_factory=lambda: {0: []})
    rewinds: list[int] = field(default_factory=list)

    @property
    def head(self) -> int:
        return max(self.paths)

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.paths[self.head + 1] = [*self.paths[self.head], entry]

    def rewind(self, to: int) -> None:
        self.rewinds.append(self.head + 1)
        self.paths[self.head + 1] = self.paths[to]

    def fork(self, at: int) -> "Plain":
        shared = self.paths[at]
        paths = {head: [entry for entry in shared if entry.position <= head] for head in range(at + 1)}
        return Plain(paths)


def fold(path: list[Entry]) -> tuple[Tail, list[Step]]:
    """All steps of a path, worked out from its first entry."""
    tail, rows = Tail(), dict[int, Step]()
    for entry in path:
        step = advance(tail, entry)
        tail = step.tail
        rows.update((row.number, row) for row in step.changed)
    return tail, list(rows.values())


@pytest.mark.django_db
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(0, 1), moves), min_size=1, max_size=14))
def test_every_earlier_head_can_be_read_as_it_was(db: None, script: list[tuple[float, Any]]) -> None:
    project = Project.objects.create(name="random")
    first = create_session(project)
    plain: dict[UUID, Plain] = {first.pk: Plain()}
    for which, (move, argument) in script:
        chosen = list(plain)[min(int(which * len(plain)), len(plain) - 1)]
        carry_out(project, plain, chosen, move, argument)
    for session_id, expected in plain.items():
        session = Session.objects.get(pk=session_id)
        assert session.head == expected.head
        for head, path in expected.paths.items():
            compare(History(session, head), path)
        compare(History(session), expected.paths[expected.head])
    for session in parents_first():
        if session.pk in plain:  # those of earlier examples have been compared
            assert rebuild(session, check_only=True).differences == []


def carry_out(project: Project, plain: dict[UUID, Plain], chosen: UUID, move: str, argument: Any) -> None:
    model = plain[chosen]
    match move:
        case "append":
            drafts = [EntryDraft(body, NOW) for body in argument]
            appended = append(project, chosen, drafts, lenient=True)
            model.append(appended.entries)
        case "rewind":
            to = round(argument * model.head)
            rewind(project, chosen, Target(to_position=to))
            model.rewind(to)
        case "fork":
            at = round(argument * model.head)
            child = fork(project, chosen, at_position=at)
            plain[child.pk] = model.fork(at)
        case "undo":
            undone = [at for at in model.rewinds if model.paths[at - 1] != model.paths[model.head]]
            if undone:
                at = undone[min(int(argument * len(undone)), len(undone) - 1)]
                undo_rewind(project, chosen, at)
                model.rewind(at - 1)


def compare(history: History, path: list[Entry]) -> None:
    tail, steps = fold(path)
    assert [entry.position for entry in history.entries()] == [entry.position for entry in path]
    assert history.tail.totals == tail.totals
    assert history.tail.input_preview == tail.input_preview
    rows = [row_values(row) for row in history.rows(1, history.steps)]
    assert rows == [columns(step) for step in steps]
    excerpts = [outlined.excerpt for outlined in history.outline(1, history.steps)]
    assert excerpts == [excerpt for _, excerpt in excerpts_of(path)]
    for after in range(history.steps + 1):
        later = [step for step in steps[after:] if step.status == "error" or step.likely_failure]
        reported = [step for step in later if step.status == "error"]
        assert failure(history, after, True).step == (later[0].number if later else None)
        assert error(history, after, True).step == (reported[0].number if reported else None)
        assert has_later_failure(history, after) == bool(later)
        assert has_later_failure(history, after, likely=False) == bool(reported)
    expected = [asdict(episode) for episode in group_episodes(path)]
    assert [asdict(episode) for episode in history.episodes(1, history.steps)] == expected


def row_values(row: Any) -> dict[str, Any]:
    names = columns(Step(0, 1, 1, 1, "in_flight", started_at=NOW.isoformat()))
    return {name: getattr(row, name) for name in names}
