"""Which summaries a run digests in the end."""

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from historyapp.core.strategies.base import SummaryDraft
from historyapp.models import Project, Session, Summary
from historyapp.services.append import append
from historyapp.services.compression import store
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.compression.store import Stored, finish_run
from historyapp.services.compression.summarise import ItemResult
from historyapp.services.sessions import change_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.compression.conftest import Record
from tests.services.drafts import act, ok

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def test_a_digest_leaves_out_summaries_of_steps_after_the_run_s_request(
    record: Record, project: Project
) -> None:
    session = record(8)
    change_session(project, session.pk, {"settings": {"max_summary_length": 400}})
    run = start_run(project, session.pk, RunRequest("structured", from_step=1, to_step=8)).run
    append(project, session.pk, [draft for _ in range(4) for draft in (act("read", path="b.py"), ok())])
    later = add_summary(project, session.pk, (9, 12), SummaryText("Much was read. " * 100))
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "succeeded"
    (digest,) = Summary.objects.filter(level=3)
    assert (digest.first_step, digest.last_step) == (1, 8)
    assert str(later.pk) not in digest.item.parts


def test_finishing_takes_as_many_queries_with_many_summaries_as_with_few(
    record: Record, project: Project
) -> None:
    session = record(12)
    query_counts = []
    for times in (20, 60):
        _summarise(session, times)
        run = start_run(project, session.pk, RunRequest("structured", from_step=9, to_step=12)).run
        plan(run.pk)
        run.items.update(state="done")
        type(run).objects.filter(pk=run.pk).update(done=1)
        with CaptureQueriesContext(connection) as queries:
            assert not finish_run(run.pk)
        query_counts.append(len(queries))
    assert query_counts[0] == query_counts[1]


def _summarise(session: Session, times: int) -> None:
    """Stores summaries of steps and ranges and a digest of them, a number of times."""
    for level, last_position in [(1, 9), (2, 9), (3, 15)] * times:
        Summary.objects.create(
            session=session,
            made_in=session,
            made_at=session.head,
            first_position=2,
            last_position=last_position,
            first_step=1,
            last_step=last_position // 2,
            level=level,
            text="Read it.",
        )


def test_long_summaries_are_stored_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results that may end the run come last, and errors of any transaction are returned."""
    monkeypatch.setattr(store, "MAX_STORED_BYTES", 2500)
    long, failed = SummaryDraft("x" * 500, ("y" * 500,)), ItemResult(9, error="no key", fatal=True)
    stored = list[list[int]]()

    def store_part(run: UUID, owner: UUID, results: list[ItemResult]) -> Stored:
        stored.append([result.item for result in results])
        return Stored(len(stored), "no key" if failed in results else "")

    monkeypatch.setattr(store, "store_results", store_part)
    results = [failed, *(ItemResult(item, long) for item in range(5))]
    ended = store.store_in_parts(uuid7(), uuid7(), results, lambda access: access())
    assert stored == [[0, 1], [2, 3], [4, 9]]
    assert ended == (3, "no key")
