"""A run whose transactions take too long ends after a few attempts."""

from typing import Any

import pytest

from historyapp.models import Project
from historyapp.services.compression import run as run_module
from historyapp.services.compression import store
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.compression.store import Stored, store_results
from historyapp.wire.problems import TransactionTooLong
from tests.llm.loopback import Loopback
from tests.services.compression.conftest import Record

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("options", [{"model": "gpt-5-mini"}, {"strategy": "simple_extract"}])
def test_a_run_ends_with_a_reason_if_its_transactions_take_too_long(
    record: Record,
    project: Project,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
) -> None:
    """Each attempt holds the write lock for seconds. They were repeated for an hour."""
    monkeypatch.setattr(run_module, "TOO_LONG_PAUSE", 0)
    attempts = list[int]()

    def fail(*_: Any) -> Stored:
        attempts.append(1)
        raise TransactionTooLong("Storing this took more than 5 seconds.")

    monkeypatch.setattr(store, "store_results", fail)
    run = start_run(project, record(2).pk, RunRequest(from_step=1, to_step=1, **options)).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, len(attempts)) == ("failed", run_module.MAX_TOO_LONG)
    assert "its writes took more than 5 seconds (PLAYHEAD_TRANSACTION_SECONDS)" in run.note


def test_a_transaction_that_takes_too_long_once_is_repeated(
    record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "TOO_LONG_PAUSE", 0)
    failures = iter([TransactionTooLong("Storing this took more than 5 seconds.")] * 3)

    def store_late(*arguments: Any) -> Stored:
        if (error := next(failures, None)) is not None:
            raise error
        return store_results(*arguments)

    monkeypatch.setattr(store, "store_results", store_late)
    run = start_run(project, record(8).pk, RunRequest("episode_summary", model="gpt-5-mini")).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, len(loopback.requests)) == ("succeeded", run.total)
