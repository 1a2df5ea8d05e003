"""Shared by the measurements: a local server, a client, a workload and a report."""

import http.client
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KEY = "ph_bench_0123456789abcdef0123456789abcdef"
THREADS = 4

THOUGHT = ("The parser drops the last line when the file does not end in a newline. " * 9)[:600]
PATH = "src/app/module_{}.py"
RESULT = ("def load(path: str) -> list[str]:\n    return path.read_text().splitlines()  # keep\n" * 30)[:2000]


def action(number: int) -> dict[str, Any]:
    """An action with 600 characters of thoughts and about 300 of arguments."""
    arguments = {"path": PATH.format(number), "query": f"needle {number} " * 22}
    return {"thoughts": THOUGHT, "use_tool": {"name": "search", "arguments": arguments}}


def result(number: int) -> dict[str, Any]:
    """A result of 2,000 characters."""
    return {"status": "success", "outputs": f"{number}: {RESULT}"}


class Client:
    """An HTTP client that keeps one connection open."""

    def __init__(self, port: int, headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = headers or {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> bytes:
        """The response's body. Any status but 2xx ends the measurement."""
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {**self.headers, **headers})
        response = self.connection.getresponse()
        content = response.read()
        if not 200 <= response.status < 300:
            raise SystemExit(f"{method} {path}: {response.status} {content[:500]!r}")
        return content

    def json(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.send(method, path, body))


@contextmanager
def server(
    application: str, environment: dict[str, str], probe: str, *, python: str = sys.executable
) -> Iterator[int]:
    """A granian process with Playhead's settings, for a WSGI or an ASGI application. Yields its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    kind = ["asgi", "--no-ws"] if "asgi" in application else ["wsgi", "--blocking-threads", str(THREADS)]
    command = [
        str(Path(python).with_name("granian")), "--interface", *kind, "--host", "127.0.0.1",
        "--port", str(port), "--workers", "1", "--no-access-log", "--log-level", "error", application,
    ]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, **environment}, cwd=ROOT)
    try:
        _wait_for(port, probe)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, path: str) -> None:
    for _ in range(400):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", path)
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server did not start")


@contextmanager
def home() -> Iterator[Path]:
    """A temporary data folder on the project's disk."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=ROOT))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def playhead(folder: Path, application: str = "historyapp.asgi:application") -> Iterator[int]:
    """A Playhead server with an API key and its default, durable settings."""
    environment = {"PLAYHEAD_HOME": str(folder), "PLAYHEAD_API_KEY": KEY, "DEBUG": ""}
    prepare = "from historyapp.services.bootstrap import bootstrap; bootstrap()"
    for arguments in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", prepare]):
        command = [sys.executable, "manage.py", *arguments]
        subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT, check=True)
    with server(application, environment, "/healthz") as port:
        yield port


def alternate(*jobs: Callable[[], object], rounds: int) -> list[float]:
    """The median time of each job in milliseconds. Jobs run alternately, so a disturbance affects all."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(rounds):
        for job, taken in zip(jobs, times, strict=True):
            begin = time.perf_counter()
            job()
            taken.append((time.perf_counter() - begin) * 1000)
    return [statistics.median(taken) for taken in times]


def processor_time(processes: Iterable[int]) -> float:
    """The processor time of these processes so far, in milliseconds. psutil returns tens of milliseconds."""
    threads = [path for pid in processes for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e6


def machine() -> str:
    """The machine in one line, for the report."""
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {python}"


def report(title: str, rows: list[tuple[str, str, str]]) -> None:
    """Prints a table with the columns measured, figure and bound."""
    print(f"\n## {title}\n\n| measured | figure | bound |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()
