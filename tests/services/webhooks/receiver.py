"""A target of webhooks on this machine. It keeps requests and responds as a test defines."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Arrived:
    """One request."""

    id: str
    headers: dict[str, str]
    text: str

    @property
    def type(self) -> str:
        return str(json.loads(self.text)["type"])

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.text)["data"]
        return data

    @property
    def session(self) -> str:
        return str(self.data["session"]["id"])


@dataclass
class Reply:
    """The response to send."""

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    endless: bool = False
    """Whether the body goes on until the client closes the connection."""


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arrived: list[Arrived] = []
        self.answer: Callable[[Arrived], Reply] = lambda _: Reply()
        self.sent = 0
        """Bytes of endless bodies."""
        self.url = f"http://127.0.0.1:{self.server_port}/hook"

    def types(self) -> list[str]:
        return [request.type for request in self.arrived]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the sender was killed between the head and the body
            return
        text = body.decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Arrived(headers["webhook-id"], headers, text)
        response = self.server.answer(request)
        self.server.arrived.append(request)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if not response.endless:
            self.send_header("content-length", str(len(response.body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(response.body)
            while response.endless:
                self.server.sent += self.connection.send(b"x" * 65536)

    def log_message(self, *_: object) -> None:
        pass
