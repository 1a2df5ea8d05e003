"""Spans of requests and model calls, if a collector is set. Otherwise OpenTelemetry is not imported."""

import builtins
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from historyapp import tracing
from historyapp.llm.errors import ModelCallError
from historyapp.tracing import model_call_span

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_tracer_is_left() -> Iterator[None]:
    real = tracing.tracer
    real.cache_clear()
    yield
    real.cache_clear()


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Keeps the spans that would be sent."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing, "tracer", lambda: provider.get_tracer("playhead"))
    return kept


def only_span(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, Mapping[str, Any]]:
    (span,) = exporter.get_finished_spans()
    return span, span.attributes or {}


def test_a_request_is_a_span_with_its_route_and_not_its_address(
    client: Client, exporter: InMemorySpanExporter
) -> None:
    response = client.get("/sign-in/a-secret-token?q=secret")
    span, attributes = only_span(exporter)
    assert span.name == "GET /sign-in/<str:token>"
    assert attributes["http.response.status_code"] == response.status_code
    assert attributes["playhead.request_id"] == response["X-Request-ID"]
    assert "secret" not in span.to_json()


def test_a_request_continues_the_trace_of_its_client(client: Client, exporter: InMemorySpanExporter) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    client.get("/healthz", headers={"traceparent": f"00-{trace}-{parent}-01"})
    span, _ = only_span(exporter)
    assert span.context
    assert span.parent
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (trace, parent)


def test_a_malformed_parent_begins_a_new_trace(client: Client, exporter: InMemorySpanExporter) -> None:
    assert client.get("/healthz", headers={"traceparent": "nonsense"}).status_code == 200
    assert only_span(exporter)[0].parent is None


def test_a_fault_of_the_server_is_an_error(
    client: Client, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("historyapp.api.auth.find_key", fail)
    client.get("/api/v1/sessions", headers={"Authorization": "Bearer ph_x"})
    assert only_span(exporter)[1]["error.type"] == "500"


def test_a_model_call_is_a_span_with_model_and_provider(exporter: InMemorySpanExporter) -> None:
    with model_call_span("gpt-5", "openai"):
        pass
    span, attributes = only_span(exporter)
    assert span.name == "chat gpt-5"
    assert attributes["gen_ai.provider.name"] == "openai"
    assert "error.type" not in attributes


def test_the_span_of_a_failed_model_call_has_the_error_and_not_the_prompt(
    exporter: InMemorySpanExporter,
) -> None:
    with pytest.raises(ModelCallError), model_call_span("gpt-5", "openai"):
        raise ModelCallError("The provider said: secret", provider="OpenAI")
    span, attributes = only_span(exporter)
    assert attributes["error.type"] == "ModelCallError"
    assert "secret" not in span.to_json()


def test_without_the_packages_requests_are_served_and_the_log_says_what_to_install(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return known(name, *args)

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(builtins, "__import__", without)
    assert client.get("/healthz").status_code == client.get("/healthz").status_code == 200
    assert caplog.text.count("playhead[otel] is not installed") == 1


def test_spans_reach_a_collector(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        assert client.get("/healthz").status_code == 200
        used = tracing.tracer()
        assert isinstance(used, Tracer)
        used.span_processor.force_flush()
        server.shutdown()
    (body,) = received
    request = ExportTraceServiceRequest.FromString(body)
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert span.name == "GET /healthz"
