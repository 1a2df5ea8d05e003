"""Evaluations are measured, stored, continued and cancelled."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import DataError, connection
from django.utils import timezone

from historyapp.core.errors import Conflict
from historyapp.core.evaluation import targets
from historyapp.core.evaluation.figures import compare_choices
from historyapp.core.evaluation.reading import texts_only
from historyapp.core.policies import policy_named
from historyapp.models import EvaluatedSession, Evaluation, Project, Session
from historyapp.models.database_clock import claim_now
from historyapp.models.own_rows import live_rows
from historyapp.services.append import append
from historyapp.services.evaluations import measuring, results, work
from historyapp.services.evaluations.measuring import SessionEvaluation
from historyapp.services.evaluations.results import EvaluationProgress, evaluation_progress
from historyapp.services.evaluations.start import (
    KEPT_FOR,
    EvaluationRequest,
    cancel_evaluation,
    prune_evaluations,
    start_evaluation,
)
from historyapp.services.evaluations.work import claim, process_evaluation
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session
from tests.plans import statements
from tests.services.drafts import act, ask, ok
from tests.services.evaluations.lookups import record_lookups


def started(project: Project, *sessions: Session, **options: Any) -> Evaluation:
    request = {"budgets": (300, 2000), "policies": ("live",), **options}
    return start_evaluation(project, EvaluationRequest([session.pk for session in sessions], **request))


def carried_out(evaluation: Evaluation) -> EvaluationProgress:
    assert not process_evaluation(evaluation.pk, lambda: False)
    evaluation.refresh_from_db()
    return evaluation_progress(evaluation)


def states(progress: EvaluationProgress) -> list[tuple[str, str]]:
    return [(item.state, item.reason) for item in progress.items]


def test_a_new_evaluation_reads_no_evaluations_that_have_ended(project: Project) -> None:
    session = record_lookups(project)
    cancel_evaluation(started(project, session))
    with statements() as issued:
        started(project, session)
    indexes = {
        access.index
        for statement in issued
        for access in statement.accesses
        if access.table == "historyapp_evaluation"
    }
    assert indexes == {"evaluation_running"}


def test_a_larger_budget_holds_more_of_what_the_next_step_needs(project: Project) -> None:
    first, second = record_lookups(project), record_lookups(project, 12)
    progress = carried_out(started(project, first, second, policies=("budgeted", "live")))
    assert not progress.active
    assert progress.share == 1
    results = progress.results
    assert results is not None
    assert (results.sessions, results.steps, results.unpriced, results.drawn) == (2, 9, 0, "sessions")
    small, large = (one for one in results.choices if one.policy == "live")
    assert (small.recall.mean, large.recall.mean) == (0.0, 1.0)
    assert small.averages.tokens <= 300 < large.averages.tokens <= 2000
    assert large.behind == (0.0, 0.0, 0.0)
    assert large.averages.cost is not None
    assert results.recommended in {one.choice for one in results.choices if one.recall.mean == 1}
    assert [item.steps for item in progress.items] == [3, 6]


def test_an_evaluation_writes_nothing_into_sessions_and_can_be_repeated_with_equal_figures(
    project: Project,
) -> None:
    session = record_lookups(project)
    once, twice = (carried_out(started(project, session)).results for _ in range(2))
    assert once == twice
    assert once is not None
    assert once.drawn == "steps"
    assert Session.objects.get(pk=session.pk).head == session.head


def test_contexts_are_as_of_the_time_before_each_step(project: Project) -> None:
    session = record_lookups(project)
    append(
        project, session.pk, [ask("data/part_99.json is later"), act("look", path="data/part_8.json"), ok()]
    )
    session.refresh_from_db()
    (choice,) = started(project, session, policies=("live",), budgets=(4000,)).choices
    evaluated = SessionEvaluation(session, session.head, [choice])
    assert evaluated.steps == [7, 8, 9, 10]
    served = [evaluated._chosen_context(choice, evaluated._past(step)) for step in (7, 10)]
    texts = [str(one.messages) for one in served if one]
    assert ["part_99" in text for text in texts] == [False, True]
    assert all(text.count("'user'") == number for text, number in zip(texts, (7, 11), strict=True))


def test_a_killed_worker_loses_at_most_one_step(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = started(project, record_lookups(project))
    measured: list[int] = []
    usual = SessionEvaluation.measure

    def measure(self: SessionEvaluation, step: int) -> Any:
        if len(measured) == 2:
            measured.append(0)
            raise KeyboardInterrupt  # as if the process ended here
        measured.append(step)
        return usual(self, step)

    monkeypatch.setattr(SessionEvaluation, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        process_evaluation(evaluation.pk, lambda: False)
    assert EvaluatedSession.objects.get().measured == 2
    assert not process_evaluation(evaluation.pk, lambda: False), "another worker's claim holds"
    EvaluatedSession.objects.update(claimed_until=claim_now() - timedelta(seconds=1))
    assert carried_out(evaluation).counts == {"done": 1}
    assert measured == [7, 8, 0, 9]


def test_a_claim_is_renewed_while_one_step_takes_long(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = work.claim(started(project, record_lookups(project)).pk)
    assert item is not None
    later = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(work, "claim_end", lambda: later)
    check = work.claim_check(item)
    check()
    assert EvaluatedSession.objects.get().claimed_until == item.claimed_until
    monkeypatch.setattr(settings, "PLAYHEAD_CLAIM_SECONDS", 0)
    check()
    assert EvaluatedSession.objects.get().claimed_until == later


@pytest.mark.parametrize("place", ["reading", "searching", "choosing a context"])
def test_cancelling_ends_the_work_within_a_step(
    project: Project, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    evaluation = started(project, record_lookups(project), record_lookups(project))
    monkeypatch.setattr(work, "_CHECK_SECONDS", 0)
    module, function = {
        "reading": (measuring, "texts_only"),
        "searching": (targets, "identifiers"),
        "choosing a context": (measuring, "policy_named"),
    }[place]
    usual = getattr(module, function)
    calls: list[Any] = []

    def count(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            cancel_evaluation(evaluation)
        return usual(*arguments)

    monkeypatch.setattr(module, function, count)
    assert not process_evaluation(evaluation.pk, lambda: False)
    assert len(calls) == 2
    assert evaluation_progress(Evaluation.objects.get()).counts == {"waiting": 2}


def test_a_worker_whose_session_another_one_has_claimed_stops_and_stores_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = started(project, record_lookups(project))
    monkeypatch.setattr(work, "_CHECK_SECONDS", 0)

    def choose(name: str) -> Any:
        EvaluatedSession.objects.update(claim=uuid4(), claimed_until=claim_now() + timedelta(seconds=30))
        return policy_named(name)

    monkeypatch.setattr(measuring, "policy_named", choose)
    assert not process_evaluation(evaluation.pk, lambda: False)
    (item,) = evaluation_progress(Evaluation.objects.get()).items
    assert (item.state, item.measured) == ("waiting", 0)


def test_an_evaluation_measures_one_step_in_each_turn(project: Project) -> None:
    evaluation = started(project, record_lookups(project), record_lookups(project))
    turns = 1
    while process_evaluation(evaluation.pk, lambda: True):
        turns += 1
        assert evaluation_progress(evaluation).share == pytest.approx((turns - 1) / 6)
    assert turns == 6


def test_cancelling_keeps_measured_steps(project: Project) -> None:
    evaluation = started(project, record_lookups(project), record_lookups(project))
    for _ in range(4):
        assert process_evaluation(evaluation.pk, lambda: True)
    cancelled = cancel_evaluation(evaluation)
    assert not process_evaluation(evaluation.pk, lambda: False)
    progress = evaluation_progress(cancelled)
    assert (progress.evaluation.state, progress.counts) == ("cancelled", {"done": 1, "waiting": 1})
    assert progress.results is not None
    assert progress.results.sessions == 1
    with pytest.raises(Conflict):
        cancel_evaluation(evaluation)


def test_no_session_is_measured_while_the_results_of_a_cancellation_are_computed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = started(project, record_lookups(project), record_lookups(project))
    for _ in range(4):
        process_evaluation(evaluation.pk, lambda: True)
    begun = claim(evaluation.pk)
    assert begun
    outer, compared, compare = len(connection.savepoint_ids), list[int](), compare_choices

    def measure_and_compare(*arguments: Any) -> Any:
        compared.append(len(connection.savepoint_ids))
        assert not process_evaluation(evaluation.pk, lambda: False)
        assert not work._store(begun, state=EvaluatedSession.State.DONE)
        return compare(*arguments)

    monkeypatch.setattr(results, "compare_choices", measure_and_compare)
    progress = evaluation_progress(cancel_evaluation(evaluation))
    assert (compared, progress.counts) == ([outer], {"done": 1, "waiting": 1})


def test_sessions_without_anything_to_measure_are_named(project: Project) -> None:
    short = record_lookups(project, 6)
    crowded = record_lookups(project, instruction="Look. " * 200)
    progress = carried_out(started(project, short, crowded, policies=("live",), budgets=(200,)))
    assert states(progress) == [
        ("skipped", work.NO_IDENTIFIERS),
        ("skipped", "All budgets are too small for this session; use at least 579."),
    ]
    assert progress.results is None


def test_the_smallest_budget_is_that_of_all_steps_after_an_interruption(project: Project) -> None:
    session = record_lookups(project, instruction="Look. " * 200)
    append(project, session.pk, [act("look", path="data/part_8.json"), ok(outputs="long " * 500)])
    append(project, session.pk, [act("look", path="data/part_9.json"), ok()])
    whole, resumed = (started(project, session, policies=("live",), budgets=(200,)) for _ in range(2))
    for _ in range(4):
        assert process_evaluation(resumed.pk, lambda: True)
    assert states(carried_out(whole)) == states(carried_out(resumed))


def test_a_deleted_session_is_skipped_and_named(project: Project) -> None:
    gone, kept = record_lookups(project), record_lookups(project)
    evaluation = started(project, gone, kept)
    process_evaluation(evaluation.pk, lambda: True)
    change_session(project, gone.pk, {"status": "archived"})
    purge(project, [gone.pk], timezone.now() + timedelta(days=1), actor="test")
    progress = carried_out(evaluation)
    assert states(progress) == [("skipped", work.SESSION_DELETED), ("done", "")]
    assert (progress.items[0].session, progress.items[0].exists, progress.items[0].figures) == (
        gone.pk,
        False,
        [],
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("unexpected"), DataError("out of range")])
def test_an_unexpected_error_ends_one_session_only(
    project: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    sessions = record_lookups(project), record_lookups(project)
    evaluation = started(project, *sessions)
    usual = SessionEvaluation.measure

    def measure(self: SessionEvaluation, step: int) -> Any:
        if self.session.pk == sessions[0].pk:
            raise error
        return usual(self, step)

    monkeypatch.setattr(SessionEvaluation, "measure", measure)
    assert states(carried_out(evaluation)) == [("failed", work.SERVER_FAILED), ("done", "")]


def test_a_long_session_is_read_in_part(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.services.evaluations.measuring.MAX_READ_STEPS", 8)
    progress = carried_out(started(project, record_lookups(project, 12)))
    assert states(progress) == [("done", "Only its first 8 steps were read.")]
    assert progress.items[0].measured == 2


@pytest.mark.parametrize("limit", ["MAX_READ_TEXTS", "MAX_READ_BYTES", "MAX_READ_TOKENS"])
def test_long_texts_are_read_in_part(project: Project, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    session = record_lookups(project, 12)
    sizes = {
        "MAX_READ_TEXTS": sum(
            texts_only(row.core().body)[1] for row in live_rows(session.lineage()) if row.position <= 18
        ),
        "MAX_READ_BYTES": sum(row.size for row in live_rows(session.lineage()) if row.position <= 18),
        "MAX_READ_TOKENS": sum(row.tokens for row in live_rows(session.lineage()) if row.position <= 18),
    }
    monkeypatch.setattr(measuring, limit, sizes[limit])
    progress = carried_out(started(project, session))
    assert states(progress) == [("done", "Only its first 8 steps were read.")]
    assert progress.items[0].measured == 2
    monkeypatch.setattr(measuring, limit, 1)
    progress = carried_out(started(project, session))
    assert states(progress) == [("skipped", f"{work.NO_IDENTIFIERS} Only its first 0 steps were read.")]


def test_an_unknown_price_is_counted(project: Project) -> None:
    sessions = record_lookups(project), record_lookups(project, model="mine")
    results = carried_out(started(project, *sessions)).results
    assert results is not None
    assert results.unpriced == 1
    priced = carried_out(started(project, *sessions, model="claude-haiku-4-5")).results
    assert priced is not None
    assert priced.unpriced == 0


def test_evaluations_are_deleted_with_their_project_and_after_a_year(project: Project) -> None:
    evaluation = started(project, record_lookups(project))
    Evaluation.objects.update(created_at=timezone.now() - 2 * KEPT_FOR)
    prune_evaluations()
    assert Evaluation.objects.exists(), "it has not ended"
    carried_out(evaluation)
    prune_evaluations()
    assert not EvaluatedSession.objects.exists()


def test_choices_are_compared_before_the_transaction_that_ends_an_evaluation(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [record_lookups(project) for _ in range(3)]
    ended, cancelled = started(project, sessions[0]), started(project, *sessions[1:])
    outer, compared, compare = len(connection.savepoint_ids), list[int](), compare_choices

    def compare_and_note(*arguments: Any) -> Any:
        compared.append(len(connection.savepoint_ids))
        return compare(*arguments)

    monkeypatch.setattr(results, "compare_choices", compare_and_note)
    assert carried_out(ended).results is not None
    while cancelled.items.filter(state=EvaluatedSession.State.WAITING).count() == 2:
        process_evaluation(cancelled.pk, lambda: True)
    assert cancel_evaluation(cancelled).results is not None
    assert compared == [outer, outer]
