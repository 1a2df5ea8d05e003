"""The results of runs are added to the totals of /metrics in the transaction that stores them."""

import pytest

from historyapp.models import CompressionRun, Project, Total
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import cancel_run, start_run
from tests.llm.loopback import Loopback, Refusal
from tests.services.compression.conftest import Compress, Record

pytestmark = pytest.mark.django_db(transaction=True)  # each model call is counted in a thread of its own


def totals() -> dict[tuple[str, str], int]:
    return {(total.name, total.label): total.value for total in Total.objects.all()}


def test_a_run_adds_its_end_its_model_calls_and_its_cost(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    run = compress(record(15))
    assert run.cost
    assert totals() == {
        ("ended runs", "succeeded"): 1,
        ("model calls", "compression openai"): run.calls,
        ("cost", "compression openai"): run.cost,
    }
    again = compress(record(15))
    assert totals()["ended runs", "succeeded"] == 2
    assert totals()["cost", "compression openai"] == run.cost + (again.cost or 0)


def test_a_failed_run_counts_as_failed_with_its_model_calls(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    loopback.steps += [Refusal(401, "no such key")] * 50
    run = compress(record(15))
    assert run.state == run.State.FAILED
    assert totals() == {
        ("ended runs", "failed"): 1,
        ("model calls", "compression openai"): run.calls,
    }


def test_a_run_with_the_local_summariser_costs_nothing(record: Record, compress: Compress) -> None:
    compress(record(15), model="local")
    assert totals() == {("ended runs", "succeeded"): 1}


def test_cancelled_runs_and_runs_without_work_end_too(project: Project, record: Record) -> None:
    request = RunRequest(strategy="episode_summary", model="local")
    cancel_run(start_run(project, record(15).pk, request).run)
    empty = start_run(project, record(0).pk, request).run
    assert empty.state == CompressionRun.State.SUCCEEDED
    assert totals() == {("ended runs", "cancelled"): 1, ("ended runs", "succeeded"): 1}
