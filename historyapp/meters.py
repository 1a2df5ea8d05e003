"""The counters of this process for ``/metrics``. Counting holds a lock only for an addition.

Counters that all processes share, such as money and runs, are in the database: ``models/totals.py``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from threading import Lock

from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]  # otherwise each counter has a second series
registry = CollectorRegistry()
ProcessCollector("playhead", registry=registry)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30)
"""Upper bounds of the latency buckets: from an append to a model call."""
WRITE_SECONDS = (0.01, 0.1, 1, 5)
"""Upper bounds of the buckets of write transactions."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"))
UNKNOWN_ROUTE = "unknown"
"""The route of requests to addresses that do not exist, and of static files."""

_requests = Counter(
    "playhead_http_requests",
    "Requests answered, by route and status.",
    ("method", "route", "status"),
    registry=registry,
)
_latency = Histogram(
    "playhead_http_request_seconds",
    "Seconds until the response was ready; for streams, until it started.",
    ("method", "route"),
    buckets=SECONDS,
    registry=registry,
)
_entries = Counter("playhead_entries_appended", "Entries appended to the log.", registry=registry)


class _Forwarding:
    """Where this process sends its counts instead of counting them."""

    to: Callable[..., None] | None = None


def forward_to(send: Callable[..., None]) -> None:
    """Calls ``send`` with the name and the values of each count, in a process without ``/metrics``."""
    _Forwarding.to = send


def route_of(request: HttpRequest) -> str:
    """The pattern that the address matched. It never contains an id or a token."""
    match = request.resolver_match
    return f"/{match.route}" if match else UNKNOWN_ROUTE


def known_method(method: str | None) -> str:
    """The method; ``other`` for unknown methods."""
    return method if method in _METHODS else "other"


def count_request(method: str | None, route: str, status: int, seconds: float) -> None:
    """Counts a request with a response. ``route`` must have few values, because each is a time series."""
    if _Forwarding.to:
        _Forwarding.to("count_request", method, route, status, seconds)
        return
    requests, latency = _series(known_method(method), route, status)
    requests.inc()
    latency.observe(seconds)


@cache
def _series(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return _requests.labels(method, route, status), _latency.labels(method, route)


def count_entries(number: int) -> None:
    """Counts entries whose transaction has been committed."""
    if _Forwarding.to:
        _Forwarding.to("count_entries", number)
        return
    _entries.inc(number)


class _WriteTimes(Collector):
    """The histogram of write transactions. A ``Histogram`` takes six times as long to add a value."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = [0] * (len(WRITE_SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        bucket = bisect_left(WRITE_SECONDS, seconds)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += seconds

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            totals, sum = list(accumulate(self._counts)), self._sum
        bounds = [*(str(float(bound)) for bound in WRITE_SECONDS), "+Inf"]
        yield HistogramMetricFamily(
            "playhead_write_transaction_seconds",
            "Seconds that write transactions took. On SQLite, others could not write meanwhile.",
            buckets=list(zip(bounds, totals, strict=True)),
            sum_value=sum,
        )


_write_times = _WriteTimes()
registry.register(_write_times)


def count_write(seconds: float) -> None:
    """Counts a write transaction.

    Args:
        seconds: how long it took.
    """
    if _Forwarding.to:
        _Forwarding.to("count_write", seconds)
        return
    _write_times.add(seconds)
