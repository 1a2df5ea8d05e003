"""A proxy on the loopback interface that forwards requests and can lose what comes back."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import httpx

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[[Callable[[], Answer]], Answer | None]
"""Given how to forward a request, what is answered to it; None: the connection is closed instead."""


def lost_request(forward: Callable[[], Answer]) -> None:
    """The connection breaks before the server gets the request."""


def lost_response(forward: Callable[[], Answer]) -> None:
    """The server carries out the request, but its response is lost."""
    forward()


def responding(status: int, headers: dict[str, str], body: bytes = b"") -> Fault:
    """A proxy responds instead of the server."""
    return lambda forward: (status, headers, body)


BUSY = responding(503, {"Retry-After": "0"})
SHORT_ANSWER: Fault = lambda forward: (200, {"Content-Length": "1000"}, b"half")  # noqa: E731


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    idempotency_key: str | None


class FaultyProxy:
    """Applies the next of ``faults`` to each request. Without further faults it forwards requests."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    self._meet(proxy.faults.pop(0) if proxy.faults else lambda forward: forward())

            def _meet(self, fault: Fault) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                proxy.seen.append(Seen(self.command, self.path, self.headers.get("Idempotency-Key")))
                response = fault(lambda: proxy.forward(self.command, self.path, dict(self.headers), body))
                if response is None:
                    return
                status, headers, content = response
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing."""

        return Handler

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        sent = {name: value for name, value in headers.items() if name not in ("Host", "Connection")}
        address = f"{self.upstream}{path}"
        # The server has no certificate, and loading those that are trusted takes 20 ms for each request.
        response = httpx.request(method, address, headers=sent, content=body, trust_env=False, verify=False)
        return (
            response.status_code,
            {"Content-Type": response.headers.get("Content-Type", "")},
            response.content,
        )
