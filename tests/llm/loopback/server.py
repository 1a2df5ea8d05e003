"""The HTTP server in its thread: it checks requests and sends responses."""

import json
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.llm.loopback import chat_rules, messages_rules, responses_rules, responses_wire, wire
from tests.llm.loopback.script import Answer, Broken, Raw, Refusal, Step
from tests.llm.loopback.wire import Event, Json

WRONG_KEY = "sk-wrong-0123456789"
"""The key that is refused. All others are accepted."""


@dataclass
class Recorded:
    """One request, and whether its client disconnected before the response."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    left: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Dialect:
    """How one endpoint responds."""

    whole: Callable[[Answer, int, str, int], Json]
    events: Callable[[Answer, int, str, int], Iterator[Event]]
    error: Callable[[Refusal], Json]


DIALECTS = {
    "/v1/chat/completions": Dialect(wire.chat_whole, wire.chat_events, wire.openai_error),
    "/v1/responses": Dialect(responses_wire.whole, responses_wire.events, wire.openai_error),
    "/v1/messages": Dialect(wire.messages_whole, wire.messages_events, wire.anthropic_error),
}
Rules = Callable[[Json], str | None]
RULES: dict[str, tuple[Rules, Callable[[Refusal], Json]]] = {
    "/v1/chat/completions": (chat_rules.problem, wire.openai_error),
    "/v1/responses": (responses_rules.problem, wire.openai_error),
    "/v1/responses/input_tokens": (responses_rules.problem, wire.openai_error),
    "/v1/messages": (messages_rules.problem, wire.anthropic_error),
    "/v1/messages/count_tokens": (partial(messages_rules.problem, counting=True), wire.anthropic_error),
}


def _refused(rules: Rules, body: Json) -> Refusal | None:
    try:
        why = rules(body)
    except (AttributeError, KeyError, TypeError, ValueError):
        why = "We could not parse the JSON body of your request."
    return Refusal(400, why, "invalid_request_error") if why else None


def tokens(body: Json) -> int:
    """The loopback's count of the input tokens."""
    return len(json.dumps(body)) // 4


class Loopback:
    """Responds with the scripted ``steps`` in order, then with the result of ``default``."""

    def __init__(self, port: int = 0) -> None:
        self.steps: deque[Step] = deque()
        self.default: Callable[[Recorded], Step] = lambda _: Answer(text="All is well.")
        self.requests: list[Recorded] = []
        self.closing = threading.Event()
        self.answered = 0
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that send both providers' clients here."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-loopback-0123456789",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-ant-loopback-0123456789",
        }

    def step(self, request: Recorded) -> Step:
        return self.steps.popleft() if self.steps else self.default(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connection errors: tests disconnect clients on purpose."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = loopback

    return Handler


class _Handler(BaseHTTPRequestHandler):
    owner: Loopback
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        request = Recorded(path, headers, json.loads(raw))
        self.owner.requests.append(request)
        try:
            self._answer(request)
        except OSError:
            request.left.set()
            self.close_connection = True

    def _answer(self, request: Recorded) -> None:
        dialect = DIALECTS.get(request.path)
        rules, error = RULES.get(request.path, (lambda _: None, wire.openai_error))
        refusal = self._refusal(request) or _refused(rules, request.body)
        if refusal is None and dialect is None and not self.owner.steps:
            kind = {"object": "response.input_tokens"} if "responses" in request.path else {}
            self._json(200, {**kind, "input_tokens": tokens(request.body)})
            return
        step = refusal or self.owner.step(request)
        if isinstance(step, Refusal):
            self._json(step.status, error(step), dict(step.headers))
        elif isinstance(step, Raw):
            self._bytes(step.status, step.body, step.content_type, dict(step.headers))
        elif dialect:
            self._play(request, dialect, step)

    def _refusal(self, request: Recorded) -> Refusal | None:
        if request.path not in RULES:
            return Refusal(404, f"Invalid URL (POST {request.path})", "invalid_request_error")
        authorization = request.headers.get("authorization", "").removeprefix("Bearer ")
        key = authorization or request.headers.get("x-api-key", "")
        if not key or key == WRONG_KEY:
            return Refusal(
                401, f"Incorrect API key provided: {key}.", "authentication_error", "invalid_api_key"
            )
        return None

    def _play(self, request: Recorded, dialect: Dialect, step: Answer | Broken) -> None:
        self.owner.answered += 1
        answer = step.answer if isinstance(step, Broken) else step
        facts = (answer, self.owner.answered, request.body["model"], tokens(request.body))
        if not request.body.get("stream"):
            self._json(200, dialect.whole(*facts))
            return
        self._begin_stream()
        events = list(dialect.events(*facts))
        options = request.body.get("stream_options") or {}
        if request.path == "/v1/chat/completions" and not options.get("include_usage"):
            events.pop()  # usage comes on demand
        for event in events[: step.after] if isinstance(step, Broken) else events:
            if answer.pause:
                self.owner.closing.wait(answer.pause)
            self._event(event)
        if isinstance(step, Broken):
            self._break(request, dialect, step)
        elif request.path == "/v1/chat/completions":
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _break(self, request: Recorded, dialect: Dialect, step: Broken) -> None:
        match step.how:
            case "cut":
                raise OSError
            case "garbage":
                self._chunk(b'event: message_start\ndata: {"type": "message_st\n\n')
            case "error":
                self._event(("error", dialect.error(step.error)))
            case "hang":
                self._linger(request, b"")
            case "ping":
                self._linger(request, b'event: ping\ndata: {"type": "ping"}\n\n')

    def _linger(self, request: Recorded, chunk: bytes) -> None:
        """Keeps the connection until the other side or the loopback ends it."""
        while not self.owner.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable:
                raise OSError
            if chunk:
                self._chunk(chunk)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _event(self, event: Event) -> None:
        name, data = event
        head = f"event: {name}\n" if name else ""
        self._chunk(f"{head}data: {json.dumps(data)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        self._bytes(status, json.dumps(body).encode(), "application/json", headers)

    def _bytes(
        self, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"content-type": content_type, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
