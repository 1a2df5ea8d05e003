"""A transaction changes some of the items of a run: a run may have a million."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from historyapp.models import CompressionRun
from historyapp.services.compression import items as items_module
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, retry_run
from historyapp.services.compression.store import finish_run
from tests.llm.loopback import Answer, Loopback, Refusal
from tests.services.compression.conftest import Compress, Record

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 8


@pytest.fixture(autouse=True)
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of items that the statements change."""
    monkeypatch.setattr(items_module, "CHANGED_AT_ONCE", AT_ONCE)
    numbers: list[int] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith('UPDATE "historyapp_compressionitem"'):
            numbers.append(context["cursor"].rowcount)
        return result

    with connection.execute_wrapper(note):
        yield numbers


@pytest.fixture
def failed(record: Record, compress: Compress, loopback: Loopback) -> CompressionRun:
    """A run of 28 items that a wrong key has ended."""
    loopback.default = lambda _: Refusal(401, "Incorrect API key provided.", "authentication_error")
    return compress(record(32))


def test_a_wrong_key_fails_all_items_a_few_at_a_time(
    failed: CompressionRun, loopback: Loopback, changed: list[int]
) -> None:
    assert (failed.state, failed.done, failed.failed) == ("failed", 0, 28)
    assert len(loopback.requests) <= 2 * AT_ONCE
    errors = failed.items.values_list("error", flat=True)
    assert all("Incorrect API key" in error for error in errors)
    assert max(changed) <= 3 * AT_ONCE  # a worker also claims 24 items


def test_a_retry_resets_all_items_a_few_at_a_time(
    failed: CompressionRun, loopback: Loopback, changed: list[int]
) -> None:
    loopback.default = lambda _: Answer(text="Read it.")
    changed.clear()
    run = retry_run(failed)
    assert (run.state, run.failed) == ("queued", 28 - AT_ONCE)
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.done, run.failed) == ("succeeded", 28, 0)
    assert max(changed) <= 3 * AT_ONCE


def test_a_run_with_items_to_reset_does_not_end(failed: CompressionRun) -> None:
    """A worker that has worked on a run looks for items once more. Somebody may have retried it."""
    run = retry_run(failed)
    run.items.filter(state="waiting").update(state="done")
    assert finish_run(run.pk)
    run.refresh_from_db()
    assert run.active


def test_a_cancelled_run_fails_no_further_items(failed: CompressionRun) -> None:
    run = cancel_run(retry_run(failed))
    assert not items_module.fail_more_waiting(run.pk, "no")
    assert run.items.filter(state="waiting").count() == AT_ONCE
