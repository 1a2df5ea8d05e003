"""Runs of sessions that share steps, a session and its forks, pay for each step once."""

import time
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from historyapp.core.strategies.base import SummaryDraft
from historyapp.models import CompressionItem, CompressionRun, Project, Session, Summary
from historyapp.models.database_clock import claim_now
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.compression import run as run_module
from historyapp.services.compression.claims import claim, release
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, retry_run, start_run
from historyapp.services.compression.store import store_results
from historyapp.services.compression.summarise import ItemResult
from historyapp.services.rewinds import fork
from historyapp.services.summary_writers.writers import InlineWriter
from tests.llm.loopback import Loopback
from tests.plans import statements
from tests.services.compression.conftest import Record
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)

PRIMARY_KEY = "sqlite_autoindex_historyapp_compressionrun_1"
REQUEST = RunRequest(strategy="episode_summary", model="gpt-5-mini", from_step=1, to_step=4)


def planned(session: Session, request: RunRequest = REQUEST) -> CompressionRun:
    run = start_run(session.project, session.pk, request).run
    plan(run.pk)
    return run


def steps(items: list[CompressionItem]) -> list[int]:
    return [item.first_step for item in items]


def results(items: list[CompressionItem]) -> list[ItemResult]:
    return [ItemResult(item.pk, SummaryDraft("It was done."), tokens=5) for item in items]


def test_a_fork_makes_only_summaries_that_no_other_run_makes(
    project: Project, record: Record, loopback: Loopback
) -> None:
    """A session and five forks that were compressed at once made 120 calls for 20 steps."""
    session, owner = record(4), uuid4()
    first, second = planned(session), planned(fork(project, session.pk))
    items = claim(first.pk, owner, 3)
    assert steps(claim(second.pk, uuid4(), 3)) == [4]
    assert claim(second.pk, uuid4(), 3) == []
    assert claim(first.pk, uuid4(), 3) == [], "the session does not make the fork's summary either"
    store_results(first.pk, owner, results(items))
    CompressionItem.objects.filter(run=second).update(state="waiting", claim=None)
    process_run(second.pk)
    second.refresh_from_db()
    assert (second.state, second.done, len(loopback.requests)) == ("succeeded", 4, 1)
    process_run(first.pk)
    first.refresh_from_db()
    assert (first.state, first.done, len(loopback.requests)) == ("succeeded", 4, 1)


@pytest.mark.parametrize("end", ["cancelled", "dead", "failed"])
def test_a_run_goes_on_when_the_run_that_it_waits_for_has_ended(
    project: Project, record: Record, loopback: Loopback, end: str
) -> None:
    session, owner = record(4), uuid4()
    first, second = planned(session), planned(fork(project, session.pk))
    items = claim(first.pk, owner, 4)
    assert claim(second.pk, uuid4(), 4) == []
    if end == "cancelled":
        cancel_run(first)
        assert claim(second.pk, uuid4(), 4) == [], "its running calls are paid"
        release(owner)
    elif end == "dead":
        first.items.update(claimed_until=claim_now() - timedelta(seconds=1))
    else:
        store_results(first.pk, owner, [ItemResult(item.pk, error="No.") for item in items])
    assert steps(claim(second.pk, uuid4(), 4)) == [1, 2, 3, 4]


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="SQLite's plans ignore the rows")
def test_a_claim_reads_only_runs_with_claims(project: Project, record: Record, loopback: Loopback) -> None:
    """It read all runs of the project, while no other process could write: 100 ms with 30,000 ended runs."""
    session = record(4)
    first, second = planned(session), planned(fork(project, session.pk))
    claim(first.pk, uuid4(), 3)
    with statements() as issued:
        assert steps(claim(second.pk, uuid4(), 3)) == [4]
    ways = {(way.table, way.index) for statement in issued for way in statement.accesses}
    assert ("historyapp_compressionitem", "item_by_claim") in ways
    assert {index for table, index in ways if table == "historyapp_compressionrun"} == {PRIMARY_KEY}


def test_a_run_does_not_wait_for_steps_that_it_does_not_share(
    project: Project, record: Record, loopback: Loopback
) -> None:
    session = record(4)
    other, forked = record(4), fork(project, session.pk, at_step=2)
    append(project, forked.pk, [draft for _ in range(2) for draft in (act("read", path="b.py"), ok())])
    first, second = planned(session), planned(forked)
    for run in (planned(other), planned(fork(project, session.pk), replace(REQUEST, strategy="ai_summary"))):
        assert claim(run.pk, uuid4(), 4)
    assert len(claim(first.pk, uuid4(), 4)) == 4
    assert steps(claim(second.pk, uuid4(), 4)) == [3, 4]


def test_a_run_that_waits_for_items_of_others_looks_for_them_once_a_second(
    project: Project, record: Record, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other pauses are in proportion to the time that a write takes: 20 claims a second."""
    session = record(4)
    first, second = planned(session), planned(fork(project, session.pk))
    assert len(claim(first.pk, uuid4(), 4)) == 4
    monkeypatch.setattr(run_module, "BUSY_WRITE_PAUSE", 30)
    worker = run_module._RunWorker(second.pk, lambda: False, InlineWriter(), lambda: False)
    worker._head, worker._busy = second.head, False  # it has stored a result, and no agent appends
    before = time.monotonic()
    worker._write()
    assert worker._next_write >= before + 30


@pytest.mark.parametrize(("last", "is_made"), [(2, True), (3, False), (4, False), (6, False)])
def test_a_retry_pays_for_a_digest_only_if_no_later_one_covers_its_steps(
    project: Project, record: Record, loopback: Loopback, last: int, is_made: bool
) -> None:
    """The second digest of the same steps was paid, and no context used it. If the later one ended after the
    run's head, the run added digests without end, and left each of them out."""
    session = record(4)
    run = planned(session)
    process_run(run.pk)
    parts = list(Summary.objects.filter(last_step__lte=3).order_by("last_step"))
    Summary.objects.update(text="It read a file, and found what it needed. " * 900)
    ends = {"first_position": parts[0].first_position, "last_position": parts[2].last_position}
    ids = [str(part.pk) for part in parts]
    run.items.create(number=5, level=3, first_step=1, last_step=3, parts=ids, state="failed", **ends)
    CompressionRun.objects.filter(pk=run.pk).update(state="partly_failed", total=5, failed=1)
    append(project, session.pk, [draft for _ in range(2) for draft in (act("read", path="b.py"), ok())])
    session.refresh_from_db()
    end = History(session).row(last).last_position
    Summary.objects.create(
        session=session, made_in=session, made_at=session.head, level=3, text="All is done.",
        first_position=parts[0].first_position, last_position=end, first_step=1, last_step=last,
    )  # fmt: skip
    process_run(retry_run(CompressionRun.objects.get(pk=run.pk)).pk, lambda: run.items.count() > 6)
    item = run.items.get(number=5)
    assert (item.state, item.summary is not None) == ("done", is_made)
    run.refresh_from_db()
    assert run.state == "succeeded"
