"""Adds to the running totals that ``/metrics`` shows.

A transaction adds to a total at its end, because other transactions that add to the same total wait for it.
Totals are always locked in the same order, so there are no deadlocks.
"""

from django.db import connection

from historyapp.models import CompressionRun, Total

_ADD = (
    "INSERT INTO historyapp_total (name, label, value) VALUES (%s, %s, %s) "
    "ON CONFLICT (name, label) DO UPDATE SET value = historyapp_total.value + excluded.value"
)


def count_ended_run(run: CompressionRun) -> None:
    """Counts a run that has ended. Runs within the transaction that ends it."""
    _add(Total.Name.ENDED_RUNS, run.state, 1)


def count_model_calls(purpose: str, provider: str, number: int, *, failed: int = 0) -> None:
    """Counts model calls. Runs within the transaction that stores their results.

    Args:
        purpose: ``call`` or ``compression``.
    """
    label = f"{purpose} {provider}"
    for name, value in ((Total.Name.MODEL_CALLS, number), (Total.Name.FAILED_MODEL_CALLS, failed)):
        if value:
            _add(name, label, value)


def count_cost(label: str, cost: int) -> None:
    """Counts what a model call has cost. Runs within the transaction that ends its reservation, so the total
    is the sum of what the spending counters have kept, however the call ends.

    Args:
        label: a purpose and a provider; empty for a reservation of an earlier version, which did not know it.
        cost: in millionths of a dollar.
    """
    if label and cost:
        _add(Total.Name.COST, label, cost)


def _add(name: str, label: str, value: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [name, label, value])
