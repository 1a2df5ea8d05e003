"""Figures by day are what the sessions recorded, after every rewind, fork, renaming and deletion."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.dates import UNDATED
from historyapp.core.day_figures import NO_DAY, DayFigures, FiguresKey
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.projection import Totals
from historyapp.models import CountedSession, Entry, Project, ProjectDay, Session, SessionDay
from historyapp.services.append import append
from historyapp.services.figures import counted_entries, day_changes, day_figures
from historyapp.services.figures.day_figures import count_part
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from tests.examples import examples
from tests.services.drafts import act, answer, ask, failed, ok
from tests.services.test_time_travel import Plain, carry_out, moves

MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py"\nValueError: no'


def count_all(project: Project, ids: list[UUID] | None = None) -> None:
    left = ids or list(Session.objects.filter(project=project).values_list("pk", flat=True))
    while left:
        left = count_part(project.pk, left)


def figures(project: Project, **where: Any) -> DayFigures:
    rows = ProjectDay.objects.filter(project=project, **where).values_list(*DayFigures._fields)
    total = DayFigures()
    for row in rows:
        total = total.plus(DayFigures(*row))
    return total


def rows_of(model: Any) -> set[Any]:
    columns = [field.attname for field in model._meta.local_concrete_fields if field.attname != "id"]
    return set(model.objects.values_list(*columns))


def all_rows() -> list[set[Any]]:
    return [rows_of(ProjectDay), rows_of(SessionDay)]


def dated(day: date, draft: EntryDraft, hour: int = 12, **metadata: Any) -> EntryDraft:
    moment = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
    return EntryDraft(draft.body, moment, metadata)


def reported(model: str, sent: int, received: int, cost: float = 0) -> dict[str, Any]:
    return {"model": model, "usage": {"input_tokens": sent, "output_tokens": received}, "cost": cost}


@pytest.fixture
def counted(project: Project, session: Session) -> Session:
    """Two days of one session, with a reported error and a likely failure."""
    change_session(project, session.pk, {"agent": "fixer", "model": "base"})
    Session.objects.filter(pk=session.pk).update(created_at=datetime(2026, 3, 2, tzinfo=UTC))
    drafts = [
        dated(MONDAY, ask("go")),
        dated(MONDAY, act("bash", command="make"), 12, **reported("big", 100, 10)),
        dated(MONDAY, ok(None, TRACEBACK), 13),
        dated(TUESDAY, act("edit"), 12, **reported("small", 20, 2, 0.5)),
        dated(TUESDAY, failed(), 14),
        dated(TUESDAY, answer(), 15),
    ]
    append(project, session.pk, drafts)
    count_all(project)
    return session


def test_figures_belong_to_the_day_the_model_and_the_tool_of_the_step(
    project: Project, counted: Session
) -> None:
    monday = figures(project, day=MONDAY, tool="bash", model="big", agent="fixer", has_cost=False)
    assert monday._replace(tokens=0) == DayFigures(
        steps=1, likely_failures=1, model_calls=1, uncached=100, output=10, milliseconds=3_600_000
    )
    tuesday = figures(project, day=TUESDAY, tool="edit", model="small", has_cost=True)
    assert tuesday._replace(tokens=0) == DayFigures(
        steps=1, errors=1, model_calls=1, uncached=20, output=2, cost=500_000, milliseconds=7_200_000
    )
    assert figures(project, tool="", model="base").sessions == 1
    assert figures(project, tool="", day=TUESDAY).steps == 1
    assert figures(project).tokens == Session.objects.get().tokens


def test_counting_again_changes_nothing_and_reads_no_entries(
    project: Project, counted: Session, django_assert_max_num_queries: Any
) -> None:
    before = all_rows()
    with django_assert_max_num_queries(2):
        count_all(project, [counted.pk])
    assert all_rows() == before


def test_steps_cut_off_by_a_rewind_are_counted_separately_until_it_is_undone(
    project: Project, counted: Session
) -> None:
    before = all_rows()
    rewound = rewind(project, counted.pk, Target(to_step=1))
    count_all(project)
    assert figures(project, is_live=True).steps == 1
    taken = figures(project, is_live=False)
    assert (taken.steps, taken.errors, taken.cost, taken.milliseconds) == (2, 1, 500_000, 7_200_000)
    undo_rewind(project, counted.pk, rewound.position)
    count_all(project)
    assert all_rows() == before


def test_a_step_in_flight_is_counted_again_when_its_result_arrives(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [act("bash")])
    count_all(project)
    append(project, session.pk, [failed()])
    count_all(project)
    assert figures(project)._replace(tokens=0, milliseconds=0) == DayFigures(sessions=1, steps=1, errors=1)


def test_missing_output_counts_if_the_cost_is_not_reported(project: Project, session: Session) -> None:
    for cost, missing in ((0.5, False), (0, True)):
        usage = reported("base", 900, 2, cost)
        append(project, session.pk, [dated(MONDAY, EntryDraft(ModelOutput(text="word " * 90)), **usage)])
        count_all(project)
        assert (figures(project).missing_output > 80) is missing
    CountedSession.objects.update(version=1)
    for model in (SessionDay, ProjectDay):
        model.objects.update(missing_output=0)
    count_all(project)
    assert figures(project).missing_output > 80


def test_steps_that_a_fork_inherits_count_once(project: Project, counted: Session) -> None:
    child = fork(project, counted.pk, at_step=2)
    append(project, child.pk, [act("bash"), failed()])
    count_all(project)
    total = figures(project)
    assert (total.sessions, total.steps, total.errors) == (2, 4, 2)
    rewind(project, child.pk, Target(to_step=1))
    count_all(project)
    assert figures(project, is_live=True).steps == 3
    assert figures(project, is_live=False).steps == 1


def test_figures_move_with_the_names_of_their_session(project: Project, counted: Session) -> None:
    change_session(project, counted.pk, {"agent": "renamed", "model": "other"})
    count_all(project)
    assert not figures(project, agent="fixer")
    assert not figures(project, model="base")
    assert figures(project, agent="renamed").steps == 3
    assert figures(project, model="other").sessions == 1


def test_a_deleted_session_leaves_no_figures(project: Project, counted: Session) -> None:
    change_session(project, counted.pk, {"status": "archived"})
    purge(project, [counted.pk], timezone.now() + timedelta(days=1))
    count_all(project, [counted.pk])
    assert [*all_rows(), rows_of(CountedSession)] == [set(), set(), set()]


def test_entries_without_a_time_belong_to_no_day(project: Project, session: Session) -> None:
    Session.objects.update(created_at=UNDATED)
    append(project, session.pk, [EntryDraft(act("bash").body, UNDATED), EntryDraft(ok().body, UNDATED)])
    count_all(project)
    assert set(ProjectDay.objects.values_list("day", flat=True)) == {NO_DAY}
    assert figures(project).steps == 1


def test_another_process_that_counts_at_the_same_time_counts_nothing_twice(
    project: Project, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, counted.pk, [act("bash"), ok()])
    store, raced = day_figures._store, list[int]()

    def store_late(additions: Any) -> None:
        if not raced:
            raced.append(1)
            count_part(project.pk, [counted.pk])
        store(additions)

    monkeypatch.setattr(day_figures, "_store", store_late)
    count_all(project)
    assert figures(project).steps == 4
    other = create_session(project)
    append(project, other.pk, [act("bash"), ok()])
    raced.clear()
    count_all(project)
    assert figures(project).steps == 5


def test_a_session_of_another_project_is_not_counted(project: Project, counted: Session) -> None:
    stranger = Project.objects.create(name="Charlie's")
    count_part(stranger.pk, [counted.pk, uuid4()])
    assert not figures(stranger)
    assert figures(project).steps == 3


outputs = st.builds(
    lambda name, model, usage: EntryDraft(
        ModelOutput(tool_calls=(ToolCall(id="a", name=name),)),
        None,
        reported(model, 10, 1, 0.25 * usage) if usage else {},
    ),
    st.sampled_from(["ls", "cat"]),
    st.sampled_from(["", "big", "small"]),
    st.integers(0, 2),
)
results = st.builds(
    lambda status: EntryDraft(
        ToolResults(results=(ToolResult(tool_call_id="a", status=status, outputs=TRACEBACK, reason="no"),))
    ),
    st.sampled_from(["success", "error"]),
)


@pytest.mark.django_db
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.floats(0, 1), moves, st.lists(outputs | results, max_size=6)), min_size=1, max_size=7
    )
)
def test_parts_add_up_to_the_live_totals_and_equal_a_single_count(
    db: None, monkeypatch: pytest.MonkeyPatch, script: list[tuple[float, Any, list[EntryDraft]]]
) -> None:
    project = Project.objects.create(name="random")
    first = create_session(project)
    plain: dict[UUID, Plain] = {first.pk: Plain()}
    for part, (which, (move, argument), drafts) in enumerate(script):
        chosen = list(plain)[min(int(which * len(plain)), len(plain) - 1)]
        carry_out(project, plain, chosen, move, argument)
        plain[chosen].append(append(project, chosen, drafts, lenient=True).entries)
        for module in (counted_entries, day_figures):
            monkeypatch.setattr(module, "BATCH_SIZE", 1 + part % 4)
        monkeypatch.setattr(day_figures, "MOVED_AT_ONCE", 1 + part % 3)
        monkeypatch.setattr(day_changes, "ROWS_AT_ONCE", 1 + part % 2)
        if part % 3 == 1:
            change_session(project, chosen, {"agent": f"agent {part}"})
        count_all(project)
    total = figures(project, is_live=True)
    expected = [_own_live(session) for session in Session.objects.filter(pk__in=plain)]
    assert total.steps == sum(steps for steps, _, _ in expected)
    assert total.errors == sum(errors for _, errors, _ in expected)
    assert total.cost == sum(cost for _, _, cost in expected)
    in_parts = all_rows()
    CountedSession.objects.filter(project=project).update(version=0)
    monkeypatch.setattr(counted_entries, "BATCH_SIZE", 2000)
    monkeypatch.setattr(day_figures, "BATCH_SIZE", 2000)
    monkeypatch.setattr(day_figures, "MOVED_AT_ONCE", 2000)
    count_all(project)
    assert all_rows() == in_parts


def _own_live(session: Session) -> tuple[int, int, int]:
    """Steps, errors and cost of a session's own live entries, from running totals."""
    lineage = session.lineage()
    shared = Entry.objects.newest(lineage.cut(min(session.fork_position, lineage.last)))
    before, now = (Totals.load(shared.totals) if shared else Totals()), session.live_tail.totals
    return now.steps - before.steps, now.errors - before.errors, now.cost - before.cost


def test_keys_name_the_columns_of_the_rows() -> None:
    columns = {field.name for field in SessionDay._meta.local_concrete_fields}
    assert columns == {"id", "session", *FiguresKey._fields, *DayFigures._fields}
