"""The counters of this process for ``/metrics``. Counting holds a lock only for an addition.

Counters that all processes share, such as money and runs, are in the database: ``models/totals.py``.
"""

from functools import cache

from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics

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
_writes = Histogram(
    "playhead_write_transaction_seconds",
    "Seconds that write transactions took. On SQLite, others could not write meanwhile.",
    buckets=WRITE_SECONDS,
    registry=registry,
)
_entries = Counter("playhead_entries_appended", "Entries appended to the log.", registry=registry)


def route_of(request: HttpRequest) -> str:
    """The pattern that the address matched. It never contains an id or a token."""
    match = request.resolver_match
    return f"/{match.route}" if match else UNKNOWN_ROUTE


def known_method(method: str | None) -> str:
    """The method; ``other`` for unknown methods."""
    return method if method in _METHODS else "other"


def count_request(method: str | None, route: str, status: int, seconds: float) -> None:
    """Counts a request with a response. ``route`` must have few values, because each is a time series."""
    requests, latency = _series(known_method(method), route, status)
    requests.inc()
    latency.observe(seconds)


@cache
def _series(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return _requests.labels(method, route, status), _latency.labels(method, route)


def count_entries(number: int) -> None:
    """Counts entries whose transaction has been committed."""
    _entries.inc(number)


def count_write(seconds: float) -> None:
    """Counts a write transaction that took this long."""
    _writes.observe(seconds)
