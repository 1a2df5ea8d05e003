"""Spans of requests and model calls, sent by OpenTelemetry.

They are created if ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set and ``playhead[otel]`` is installed. Otherwise
OpenTelemetry is not imported. Spans contain routes, models and figures, but no text of agents.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)


@cache
def tracer() -> "Tracer | None":
    """The tracer of this process, or None. It is created at the first span, because a fork would lose its
    sending thread."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip():
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but playhead[otel] is not installed: no spans.")
        return None
    name = os.environ.get("OTEL_SERVICE_NAME", "").strip() or "playhead"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("playhead")


@contextmanager
def request_span(method: str, headers: Mapping[str, str]) -> "Iterator[Span | None]":
    """A span of a request, in the trace of the header ``traceparent``; None without a tracer."""
    current_tracer = tracer()
    if current_tracer is None:
        yield None
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": headers.get("HTTP_TRACEPARENT", "")}
    context = TraceContextTextMapPropagator().extract(carrier)
    with current_tracer.start_as_current_span(method, context=context, kind=SpanKind.SERVER) as span:
        yield span


def end_request(span: "Span", method: str, route: str, status: int, request_id: str) -> None:
    """Sets the name and the status of a request's span. A status of 500 or above is an error."""
    span.update_name(f"{method} {route}")
    span.set_attributes({
        "http.request.method": method, "http.route": route, "http.response.status_code": status,
        "playhead.request_id": request_id,
    })  # fmt: skip
    if status >= 500:
        span.set_attribute("error.type", str(status))


@contextmanager
def model_call_span(model: str, provider: str) -> Iterator[None]:
    """A span of a model call, with its retries, until its response has been read or the call is cancelled."""
    current_tracer = tracer()
    if current_tracer is None:
        yield
        return
    from opentelemetry.trace import SpanKind

    # The span is not made current, because the caller's thread does other work between two deltas.
    span = current_tracer.start_span(f"chat {model}", kind=SpanKind.CLIENT)
    span.set_attributes({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.provider.name": provider,
    })  # fmt: skip
    try:
        yield
    except BaseException as error:  # including GeneratorExit, when the model call is cancelled
        span.set_attribute("error.type", type(error).__name__)
        raise
    finally:
        span.end()
