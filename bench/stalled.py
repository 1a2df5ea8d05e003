"""Appends and ``/healthz`` while clients stall in four ways at once, compared with the same server idle."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.importing import PREPARE
from bench.machinery import KEY, ROOT, Client, action, home, report, result, server

BODIES, READERS, CALLS, HEADS = 200, 200, 50, 300
CALL_SECONDS = 15.0
APPENDS = 300
"""Appends in each phase: before the attack, at its beginning, during it (twice as many) and after it."""
ENTRIES, ENTRY = 40, "line " * 40_000
"""The entries of the session that the slow readers export, 8 MB in total."""
KEYS = 5
"""API keys of the readers. One more is for the model calls, because the requests of each key are limited."""
MAKE_KEYS = """
from historyapp.models import Project
from historyapp.services.keys import create_key
project = Project.objects.get()
for number in range({keys}):
    print(create_key(project, f"attacker {{number}}", scopes=["read", "write", "spend"], actor="bench")[1])
"""


def main() -> None:
    with home() as folder, _model() as model:
        environment = {**os.environ, **model, "NO_PROXY": "127.0.0.1", "PLAYHEAD_HOME": str(folder),
                       "PLAYHEAD_API_KEY": KEY, "DEBUG": ""}  # fmt: skip
        make_keys = MAKE_KEYS.format(keys=KEYS + 1)
        _manage(environment, "migrate", "--verbosity", "0")
        keys = _manage(environment, "shell", "--no-imports", "-c", f"{PREPARE}\n{make_keys}").split()
        with server("historyapp.asgi:application", environment, "/healthz") as port:
            _measure(port, keys)


def _measure(port: int, keys: list[str]) -> None:
    client = Client(port)
    session = client.json("POST", "/api/v1/sessions", {})["id"]
    _append(client, session, 100)
    before = _append(client, session, APPENDS)
    attack = [sys.executable, "-m", "bench.stalled", str(port), *keys]
    attacker = subprocess.Popen(attack, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert attacker.stdout
    assert attacker.stdout.readline() == "ready\n"
    health: list[float] = []
    stop = threading.Event()
    watch = threading.Thread(target=_watch_health, args=(port, health, stop))
    watch.start()
    beginning = _append(client, session, APPENDS)
    first_slowest = max(health)
    health.clear()
    during = _append(client, session, 2 * APPENDS)
    stop.set()
    watch.join()
    attacker.terminate()
    open_connections = attacker.communicate()[0].strip()
    time.sleep(1)
    after = _append(client, session, APPENDS)
    idle = before + after
    report(
        f"{BODIES} stalled bodies, {READERS} slow readers, {CALLS} model calls, {HEADS} slow heads at once",
        [
            ("open at the end of the attack", open_connections, ""),
            ("action + result, idle: median, p99", _figures(idle), ""),
            ("while the attack begins", _figures(beginning), ""),
            ("while it lasts", _figures(during), ""),
            ("**ratio of p99, while it lasts**", f"**{_p99(during) / _p99(idle):.2f}**", "2"),
            ("`/healthz`, slowest: begins, lasts", f"{first_slowest:.1f} ms, {max(health):.1f} ms", "100 ms"),
        ],
    )


def _append(client: Client, session: str, rounds: int) -> list[float]:
    times = []
    for number in range(rounds):
        begin = time.perf_counter()
        client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
        client.send("POST", f"/api/v1/sessions/{session}/results", result(number))
        times.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.002)
    return times


def _watch_health(port: int, times: list[float], stop: threading.Event) -> None:
    while not stop.is_set():
        begin = time.perf_counter()
        Client(port).send("GET", "/healthz")
        times.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.1)


def _figures(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} ms, {_p99(times):.1f} ms"


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def _manage(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@contextmanager
def _model() -> Iterator[dict[str, str]]:
    """Starts a slow model in a process of its own, and yields its environment variables."""
    command = [sys.executable, "-m", "tests.llm.loopback", "--latency", str(CALL_SECONDS)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    lines = [process.stdout.readline().removeprefix("export ").strip() for _ in range(4)]
    try:
        yield dict(line.split("=", 1) for line in lines)
    finally:
        process.kill()
        process.wait()


# The attacker, in a process of its own:


@dataclass
class Stalling:
    """A stalling connection, which is opened again when the server has closed it."""

    kind: str
    request: bytes
    trickle: bytes = b""
    """Sent every second."""
    reads: int = 0
    """Bytes read every second; 0 means all."""
    connection: socket.socket | None = None
    ended: int = 0

    def open(self, port: int) -> None:
        self.connection = socket.socket()
        if self.reads:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.connection.connect(("127.0.0.1", port))
        self.connection.sendall(self.request)
        self.connection.setblocking(False)

    def stall(self, port: int) -> None:
        if self.connection is None:
            self.open(port)
        assert self.connection
        try:
            if self.trickle:
                self.connection.send(self.trickle)
            received = self.connection.recv(self.reads or 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not self.reads or not received:
            self.ended += 1
            self.connection.close()
            self.connection = None


def attack(port: int, keys: list[str]) -> None:
    """Stalls in all ways until it is terminated. Then prints the number of open connections of each kind."""
    owner = Client(port)
    big = _session(owner, [ENTRY] * ENTRIES)
    sessions = [_session(owner, ["Say hello."]) for _ in range(CALLS)]
    stalling = [
        *(Stalling("model calls", _call(session, keys[KEYS])) for session in sessions),
        *(
            Stalling("bodies", _body(keys[number % KEYS] if number % 2 else ""), b" ")
            for number in range(BODIES)
        ),
        *(Stalling("readers", _export(big, keys[n % KEYS]), reads=16_384) for n in range(READERS)),
        *(Stalling("heads", b"GET /api/v1/sessions HTTP/1.1\r\nX-Slow: ", b"a") for _ in range(HEADS)),
    ]
    for client in stalling:
        client.open(port)
    print("ready", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        while True:
            time.sleep(1)
            for client in stalling:
                client.stall(port)
    finally:
        opened = Counter(client.kind for client in stalling if client.connection)
        ended = Counter(
            {kind: sum(client.ended for client in stalling if client.kind == kind) for kind in opened}
        )
        print(
            ", ".join(f"{number} {kind} (ended {ended[kind]})" for kind, number in opened.items()), flush=True
        )


def _session(client: Client, texts: list[str]) -> str:
    session = str(client.json("POST", "/api/v1/sessions", {})["id"])
    for text in texts:
        entry = {"kind": "model_input", "content": text}
        client.send("POST", f"/api/v1/sessions/{session}/entries", {"entries": [entry]})
    return session


def _call(session: str, key: str) -> bytes:
    body = b'{"model": "gpt-5-mini"}'
    return _head("POST", f"/sessions/{session}/calls", key, len(body)) + body


def _body(key: str) -> bytes:
    return _head("POST", "/sessions", key, 1_000_000) + b"{"


def _export(session: str, key: str) -> bytes:
    return _head("GET", f"/sessions/{session}/export", key)


def _head(method: str, path: str, key: str, length: int = 0) -> bytes:
    lines = [f"{method} /api/v1{path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    lines += [f"Content-Length: {length}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        attack(int(sys.argv[1]), sys.argv[2:])
    else:
        main()
