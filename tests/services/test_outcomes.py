"""Workers compute the outcomes of steps that an earlier version recorded."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.models import Episode, ImportSource, Project, Session, StaleOutcomes
from historyapp.models.outcomes import RETRY_AFTER
from historyapp.models.own_rows import OwnRow
from historyapp.models.stored_totals import stored_totals
from historyapp.services import outcomes as outcomes_service
from historyapp.services.append import append
from historyapp.services.outcomes import (
    OUTCOME_COLUMNS,
    compute_next_outcomes,
    compute_outcomes,
    has_stale_sessions,
)
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from historyapp.services.transactions import giving_way
from tests.examples import thorough
from tests.services.drafts import act, answer, ask, failed, ok

SUMMARY = EntryDraft(ModelInput(channel="compaction", content="So far: all well."))
FAILED = 'Traceback (most recent call last):\n  File "a.py"\nValueError: no'


def never() -> bool:
    return False


def damaged_entries(*_: object) -> Iterator[OwnRow]:
    raise ValueError("damaged")


def shell_command() -> EntryDraft:
    return act("bash", command="python a.py")


def shell_output(text: str) -> EntryDraft:
    return ok(None, text)


def record(project: Project, session: Session) -> None:
    """Records a session with takes, a fork and a fork of that; some results look like failures."""
    for number in range(6):
        bad = number % 2
        append(
            project,
            session.pk,
            [ask(f"{number}"), SUMMARY, shell_command(), shell_output(FAILED if bad else "fine")],
        )
    rewind(project, session.pk, Target(to_step=4))
    append(
        project,
        session.pk,
        [shell_command(), shell_output("fine"), act("read"), failed(), shell_command(), shell_output(FAILED)],
    )
    cut = rewind(project, session.pk, Target(to_step=5))
    undo_rewind(project, session.pk, cut.position)
    append(project, session.pk, [shell_command(), shell_output(FAILED)])
    child = fork(project, session.pk, at_step=5)
    append(project, child.pk, [shell_command(), shell_output(FAILED), shell_command()])
    grandchild = fork(project, child.pk, at_step=6)
    append(project, grandchild.pk, [shell_command(), shell_output(FAILED)])


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Recorded once: it takes longer than a test. Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="ours")
        record(project, create_session(project))
        yield
        transaction.set_rollback(True)


@pytest.fixture
def sessions(recorded: None, db: None) -> list[Session]:
    return list(Session.objects.select_related("project").order_by("created_at", "pk"))


@pytest.fixture
def session(sessions: list[Session]) -> Session:
    return sessions[0]


@pytest.fixture
def project(session: Session) -> Project:
    return session.project


def outcomes() -> list[object]:
    rows = Episode.objects.order_by("session", "anchor").values_list("session", "anchor", *OUTCOME_COLUMNS)
    tails = Session.objects.order_by("pk").values_list("pk", "tail")
    return [*rows, *tails]


def forget(sessions: list[Session]) -> None:
    """Makes the rows as an earlier version wrote them."""
    texts = dict.fromkeys(("kind", "target", "likely_failure", "error_line", "input_preview"), "")
    counts = dict.fromkeys(("total_likely_failures", "turn", "turn_first", "compactions"), 0)
    lacking = {**texts, **counts, "kind_totals": {}}
    assert lacking.keys() == set(OUTCOME_COLUMNS)
    Episode.objects.update(**lacking)
    for session in sessions:
        step = session.tail["step"]
        kept = {**{name: value for name, value in step.items() if name != "checks"}, **lacking}
        Session.objects.filter(pk=session.pk).update(tail={**session.tail, "step": kept})
        StaleOutcomes.objects.create(session=session)


def test_outcomes_of_a_session_with_only_answers_are_computed_too(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("hello"), answer("hello"), ask("again"), answer("hello")])
    session.refresh_from_db()
    forget([session])
    assert compute_outcomes(never) == 1
    rows = Episode.objects.filter(session=session).order_by("number")
    assert list(rows.values_list("turn", "kind_totals")) == [(1, {}), (2, {})]


def test_after_an_update_workers_compute_imports_with_commands_and_their_forks_again(
    sessions: list[Session],
) -> None:
    StaleOutcomes.objects.create(session=sessions[1], after=9)
    for format, session in [("claude_code", sessions[0]), ("openhands", create_session(sessions[0].project))]:
        ImportSource.objects.create(project=session.project, format=format, source_id="a", session=session)
    (operation,) = import_module("historyapp.migrations.0065_turns_of_commands").Migration.operations
    with connection.cursor() as cursor:
        cursor.execute(operation.sql)
    stale = StaleOutcomes.objects.order_by("session__created_at", "session")
    assert list(stale.values_list("session", "after")) == [(session.pk, 0) for session in sessions]


def test_lists_show_the_figures_of_a_fork_since_the_fork_before_its_columns_are_computed_again(
    sessions: list[Session],
) -> None:
    ids = [session.pk for session in sessions]
    expected = stored_totals(ids)
    forget(sessions)
    for id in ids:
        while compute_next_outcomes(id):
            pass
    assert stored_totals(ids) == expected


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_rows_and_tails_equal_those_that_this_version_records(
    monkeypatch: pytest.MonkeyPatch, at_once: int, sessions: list[Session]
) -> None:
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", at_once)
    expected = outcomes()
    forget(sessions)
    assert outcomes() != expected
    assert compute_outcomes(never) == len(sessions)
    assert outcomes() == expected
    assert not has_stale_sessions()


def test_the_work_stops_on_request_and_continues_where_it_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", 4)
    expected = outcomes()
    forget(sessions)
    assert compute_next_outcomes(session.pk)
    assert StaleOutcomes.objects.get(session=session).after == 4
    assert StaleOutcomes.objects.get(session=session).percent > 0
    assert compute_outcomes(lambda: True) == 0
    assert StaleOutcomes.objects.count() == len(sessions)
    compute_outcomes(never)
    assert outcomes() == expected


@pytest.mark.parametrize("gives", [True, False])
def test_the_work_pauses_between_its_transactions_once(
    session: Session, gives: bool, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    """Here in one transaction, so no write pauses by itself."""
    pauses: list[float] = []
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", 4)
    forget(sessions)
    monkeypatch.setattr("historyapp.services.transactions.time.sleep", pauses.append)
    with giving_way() if gives else nullcontext():
        compute_outcomes(never)
    assert bool(pauses) == (connection.vendor == "sqlite" and not gives)


def test_entries_and_forks_added_meanwhile_get_correct_totals(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", 4)
    forget(sessions)
    compute_next_outcomes(session.pk)
    append(project, session.pk, [shell_command(), shell_output(FAILED)])
    late = fork(project, session.pk, at_step=7)
    append(project, late.pk, [shell_command(), shell_output(FAILED)])
    compute_outcomes(never)
    for one in Session.objects.order_by("created_at"):
        assert rebuild(one, check_only=True).differences == []


def test_entries_are_read_before_the_transaction(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    """A step of 20 results of 4 MB was read again and again while others could not write."""
    forget(sessions)
    outer, within = len(connection.savepoint_ids), list[bool]()

    def noted(read: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: Any) -> Any:
            within.append(len(connection.savepoint_ids) > outer)
            return read(*arguments)

        return note

    for name in ("tail_of", "own_rows"):
        monkeypatch.setattr(outcomes_service, name, noted(getattr(outcomes_service, name)))
    compute_outcomes(never)
    assert within
    assert not any(within)


@pytest.mark.parametrize("number", [3, 6, *map(thorough, (0, 1, 2, 4, 5, 7))])
def test_changes_between_the_read_and_the_transaction_are_kept(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, number: int, sessions: list[Session]
) -> None:
    """Another worker computes the same entries, and an agent appends, rewinds and forks."""
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", 4)
    forget(sessions)
    compute, left = outcomes_service._compute_next, [number]

    def disturbed(one: Session, after: int) -> Any:
        computed = compute(one, after)
        left[0] -= 1
        if left[0] == -1 and one.pk == session.pk:
            compute_next_outcomes(session.pk)
            append(project, session.pk, [shell_command(), shell_output(FAILED)])
            rewind(project, session.pk, Target(to_step=7))
            late = fork(project, session.pk, at_step=6)
            append(project, late.pk, [shell_command(), shell_output(FAILED)])
        return computed

    monkeypatch.setattr(outcomes_service, "_compute_next", disturbed)
    compute_outcomes(never)
    for one in Session.objects.order_by("created_at"):
        assert rebuild(one, check_only=True).differences == []


def test_a_restart_between_the_read_and_the_transaction_is_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    """Otherwise the rows that a rebuild or a migration emptied meanwhile would stay empty."""
    monkeypatch.setattr("historyapp.services.outcomes.MAX_ENTRIES", 4)
    expected = outcomes()
    forget(sessions)
    assert compute_next_outcomes(session.pk)
    compute, emptied = outcomes_service._compute_next, {"kind": "", "target": "", "turn": 0}

    def disturbed(one: Session, after: int) -> Any:
        computed = compute(one, after)
        Episode.objects.filter(session=one, anchor__lte=after).update(**emptied)
        StaleOutcomes.objects.filter(session=one).update(after=0)
        monkeypatch.undo()
        return computed

    monkeypatch.setattr(outcomes_service, "_compute_next", disturbed)
    compute_outcomes(never)
    assert outcomes() == expected


def test_a_fork_waits_for_its_parent(session: Session, sessions: list[Session]) -> None:
    forget(sessions)
    assert [stale.session_id for stale in StaleOutcomes.objects.ready()] == [session.pk]


def test_rebuilding_computes_all_outcomes(session: Session, sessions: list[Session]) -> None:
    expected = outcomes()
    forget(sessions)
    assert rebuild(session, check_only=True).differences == []
    assert has_stale_sessions()
    for one in sessions:
        rebuild(one)
    assert not has_stale_sessions()
    assert outcomes() == expected


def test_a_session_that_was_deleted_meanwhile_is_skipped(project: Project) -> None:
    session = create_session(project)
    StaleOutcomes.objects.create(session=session)
    missing = session.pk
    Session.objects.filter(pk=missing).delete()
    assert not compute_next_outcomes(missing)


def test_a_session_that_cannot_be_read_does_not_delay_others(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    other = create_session(project)
    append(project, other.pk, [shell_command(), shell_output(FAILED)])
    forget([*sessions, Session.objects.get(pk=other.pk)])
    own = outcomes_service._own_entries

    def read(one: Session, after: int) -> Iterator[OwnRow]:
        if one.pk == session.pk:
            raise ValueError("damaged")
        return own(one, after)

    monkeypatch.setattr(outcomes_service, "_own_entries", read)
    assert compute_outcomes(never) == 1
    assert not StaleOutcomes.objects.filter(session=other).exists()
    assert StaleOutcomes.objects.filter(session=session).exists()


def test_a_session_that_cannot_be_read_is_tried_again_after_an_hour(
    session: Session, monkeypatch: pytest.MonkeyPatch, sessions: list[Session]
) -> None:
    expected = outcomes()
    forget(sessions)
    with monkeypatch.context() as damaged:
        damaged.setattr(outcomes_service, "_own_entries", damaged_entries)
        assert compute_outcomes(never) == 0
        assert not has_stale_sessions(), "its forks wait for it, too"
    StaleOutcomes.objects.filter(session=session).update(retry_at=timezone.now())
    assert compute_outcomes(never) == len(sessions)
    assert outcomes() == expected


def test_a_clock_that_was_put_back_delays_no_retry(session: Session) -> None:
    late = timezone.now() + 3 * RETRY_AFTER
    StaleOutcomes.objects.create(session=session, retry_at=late)
    assert has_stale_sessions()
