"""``GET /metrics`` in the text format of Prometheus.

The counters of this process are in ``historyapp.meters``. Other figures are read from the database at each
request. The cost of these queries grows with the queue and the active runs, but not with the log.
"""

import hmac
import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from historyapp import disk, meters
from historyapp.api.auth import bearer_token
from historyapp.core.usage import MICRO
from historyapp.lag import (
    longest_webhook_wait,
    oldest_message_age,
    oldest_queued_run_age,
    waiting_messages,
)
from historyapp.models import CompressionRun, Session, Total, Worker
from historyapp.models.vendor import on_sqlite

log = logging.getLogger(__name__)


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    """The figures of this process and of the database; 404 unless ``PLAYHEAD_METRICS_TOKEN`` is set."""
    expected = settings.PLAYHEAD_METRICS_TOKEN
    if not expected:
        raise Http404
    token = bearer_token(request)
    if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), expected.encode()):
        response = HttpResponse("Send PLAYHEAD_METRICS_TOKEN as Authorization: Bearer …\n", status=401)
        response["WWW-Authenticate"] = 'Bearer realm="playhead metrics"'
        response["Content-Type"] = "text/plain; charset=utf-8"
        return response
    shared_registry = CollectorRegistry()
    shared_registry.register(SharedFigures())
    text = generate_latest(meters.registry) + generate_latest(shared_registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers={"Cache-Control": "no-store"})


class SharedFigures(Collector):
    """The figures that are the same in every process: disk, queue, runs, model calls."""

    def describe(self) -> Iterable[Metric]:
        return ()  # otherwise registering would collect all metrics once

    def collect(self) -> Iterator[Metric]:
        yield _gauge("disk_free_bytes", "Free disk space of the data folder.", disk.free_bytes())
        yield _gauge("disk_size_bytes", "Size of the disk with the data folder.", disk.size_bytes())
        try:
            families = [*_work(), *_totals(), *_database_size()]
        except (DatabaseError, InterfaceError) as error:
            log.error("The metrics cannot be read from the database: %s", type(error).__name__)
            families = []
        yield _gauge("database_up", "Whether the database responds: 1 or 0.", int(bool(families)))
        yield from families


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"playhead_{name}", help, value=value)


def _database_size() -> Iterator[Metric]:
    if on_sqlite():
        path = str(connection.settings_dict["NAME"])
        files = [Path(path + suffix) for suffix in ("", "-wal")]
        size = sum(file.stat().st_size for file in files if file.exists())
    else:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            (size,) = cursor.fetchone()
    yield _gauge("database_bytes", "Disk space that the database uses.", size)


def _work() -> Iterator[Metric]:
    messages = waiting_messages()
    if messages is not None:  # None while Redis does not respond
        yield _gauge("queue_messages", "Messages that wait for a worker.", messages)
    ages = (
        ("queue_oldest_seconds", "Age of the oldest message in the database's queue.", oldest_message_age()),
        ("compression_lag_seconds", "Age of the oldest queued run.", oldest_queued_run_age()),
        ("webhook_lag_seconds", "Longest wait of a due webhook for a worker.", longest_webhook_wait()),
    )
    for name, help, age in ages:
        yield _gauge(name, help, age)
    yield _gauge("workers", "Workers that reported within a minute.", Worker.objects.alive().count())
    due = Session.objects.filter(compression_due=True).count()
    yield _gauge("compression_sessions_due", "Sessions that wait for an automatic run.", due)
    runs = GaugeMetricFamily("playhead_compression_runs", "Active runs by state.", labels=("state",))
    counts = CompressionRun.objects.active().order_by().values_list("state").annotate(Count("id"))
    numbers = dict(counts)
    for state in CompressionRun.ACTIVE:
        runs.add_metric((str(state),), numbers.get(state, 0))
    yield runs


def _totals() -> Iterator[Metric]:
    ended = CounterMetricFamily("playhead_compression_runs_ended", "Ended runs by state.", labels=("state",))
    by_provider = ("purpose", "provider")
    calls = CounterMetricFamily(
        "playhead_model_calls", "Model calls, including failed calls.", None, by_provider
    )
    failures = CounterMetricFamily(
        "playhead_model_call_failures", "Failed model calls of POST /calls.", None, by_provider
    )
    cost = CounterMetricFamily(
        "playhead_model_cost_dollars", "Cost of model calls whose price is known.", None, by_provider
    )
    families = {
        Total.Name.MODEL_CALLS: calls,
        Total.Name.FAILED_MODEL_CALLS: failures,
        Total.Name.COST: cost,
    }
    for total in Total.objects.order_by("name", "label"):
        if total.name == Total.Name.ENDED_RUNS:
            ended.add_metric((total.label,), total.value)
        else:
            value = total.value / MICRO if total.name == Total.Name.COST else total.value
            families[Total.Name(total.name)].add_metric(total.label.split(" ", 1), value)
    yield from (ended, calls, failures, cost)
