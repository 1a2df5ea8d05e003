"""While the database is away or a row is locked, the items of a run with a model wait and are paid once."""

import itertools
from typing import Any

import pytest
from django.db import OperationalError, connection

from historyapp.models import CompressionItem, Project
from historyapp.models.database_clock import claim_now, elapsed
from historyapp.services import transactions
from historyapp.services.compression import run as run_module
from historyapp.services.compression import store as store_module
from historyapp.services.compression import summarise
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.compression.store import Stored, store_results
from historyapp.services.reservations import Reservation
from historyapp.wire.problems import TransactionTooLong
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.compression.conftest import Record

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = RunRequest("episode_summary", model="gpt-5-mini", from_step=1, to_step=2)
AWAY = OperationalError("the database is away")


@pytest.mark.parametrize("name", ["reserve", "check", "retry"])
def test_no_item_fails_because_its_call_could_not_be_reserved(
    name: str, record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They failed for good, although the run waits for the database for an hour."""
    monkeypatch.setattr(summarise, "REACH_PAUSE", 0)
    monkeypatch.setattr(summarise, "sleep", lambda _: None)
    owner: Any = summarise if name == "reserve" else Reservation
    real, failures = getattr(owner, name), iter([AWAY, AWAY])

    def fail_twice(*arguments: Any, **options: Any) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, fail_twice)
    loopback.steps.append(Refusal(500))
    run = start_run(project, record(4).pk, MODEL).run
    process_run(run.pk)
    run.refresh_from_db()
    assert next(failures, None) is None
    assert (run.state, run.failed, len(loopback.requests)) == ("succeeded", 0, run.total + 1)


@pytest.mark.parametrize("error", [AWAY, TransactionTooLong("Storing this took too long.")])
def test_claims_are_renewed_while_their_results_wait(
    error: Exception, record: Record, project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of a session for 42 seconds let another worker pay all items again."""
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    monkeypatch.setattr(run_module, "TOO_LONG_PAUSE", 0)
    seconds = [0.0]
    monkeypatch.setattr(run_module, "elapsed", lambda: elapsed() + seconds[0])
    failures, ended = iter([error] * 3), list[bool]()

    def store(*arguments: Any) -> Stored:
        claimed = CompressionItem.objects.filter(state="claimed")
        ended.append(claimed.filter(claimed_until__lt=claim_now()).exists())
        if (failure := next(failures, None)) is not None:
            claimed.update(claimed_until=claim_now())
            seconds[0] += 20
            raise failure
        return store_results(*arguments)

    monkeypatch.setattr(store_module, "store_results", store)
    run = start_run(project, record(4).pk, MODEL).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, next(failures, None), any(ended)) == ("succeeded", None, False)


@pytest.mark.parametrize("name", ["store_results", "finish_run"])
def test_a_run_waits_for_a_locked_row_for_a_part_of_a_transaction_s_time(
    name: str,
    record: Record,
    project: Project,
    loopback: Loopback,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a lock of somebody else would count as transactions that take too long, which end the run."""
    owner: Any = store_module if name == "store_results" else run_module
    real, waits = getattr(owner, name), list[float | None]()

    def noted(*arguments: Any) -> Any:
        waits.append(transactions._max_wait.get())
        return real(*arguments)

    monkeypatch.setattr(owner, name, noted)
    process_run(start_run(project, record(4).pk, MODEL).run.pk)
    assert set(waits) == {settings.PLAYHEAD_TRANSACTION_SECONDS / 3}


@pytest.mark.skipif("config.getoption('database') != 'postgres'", reason="SQLite locks no rows")
def test_a_run_waits_for_a_session_that_another_program_has_locked(
    record: Record, project: Project, loopback: Loopback, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLAYHEAD_TRANSACTION_SECONDS = 0.03
    monkeypatch.setattr(run_module, "STORE_PAUSE", 0)
    run = start_run(project, record(4).pk, MODEL).run
    plan(run.pk)
    run.refresh_from_db()
    with connection.copy().cursor() as other:
        failures, answers = list[str](), itertools.count(1)

        def lock_and_answer(_: object) -> Answer:
            if next(answers) == run.total:
                other.execute("BEGIN")
                other.execute("SELECT 1 FROM historyapp_session FOR UPDATE")
            return Answer(text="Read it.")

        def unlock_after_three(*_: Any) -> None:
            failures.append("locked")
            if len(failures) == 3:
                other.execute("ROLLBACK")

        loopback.default = lock_and_answer
        monkeypatch.setattr(run_module._RunWorker, "_keep_claims", unlock_after_three)
        process_run(run.pk)
        other.connection.close()
    run.refresh_from_db()
    assert (run.state, run.failed, len(loopback.requests)) == ("succeeded", 0, run.total)
    assert len(failures) >= 3
