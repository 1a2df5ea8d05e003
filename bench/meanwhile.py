"""How much slower an agent appends while its session is compressed."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.compressing import LATENCY, worker_processes
from bench.importing import PREPARE
from bench.machinery import KEY, ROOT, Client, action, home, report, result, server
from tests.environment import start_postgres, stop_postgres
from tests.redis import redis_server

STEPS = 3000
"""Recorded before the rounds begin, and compressed in each round."""
ROUNDS = 6
SECONDS = 4.0


def main() -> None:
    rows = []
    for database in ("SQLite", "PostgreSQL"):
        for strategy in ("episode_summary", "simple_extract"):
            alone, meanwhile = _measure(database, strategy)
            figure = f"{alone:.0f} → {meanwhile:.0f} steps/s: **{100 * (1 - meanwhile / alone):.0f} % lost**"
            rows.append((f"{database}, {strategy}", figure, "20 % lost"))
    report("Appending while the same session is compressed", rows)


def _measure(database: str, strategy: str) -> tuple[float, float]:
    """Steps recorded in a second, alone and during a run. Medians of alternating rounds."""
    with home() as folder, redis_server() as redis, _model() as model, _database(database, folder) as url:
        environment = {
            **os.environ, **model, **url, "NO_PROXY": "127.0.0.1",
            "PLAYHEAD_HOME": str(folder / "home"), "REDIS_URL": redis.url, "PLAYHEAD_API_KEY": KEY,
        }  # fmt: skip
        for arguments in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", PREPARE]):
            command = [sys.executable, "manage.py", *arguments]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
        application = "historyapp.asgi:application"
        with server(application, environment, "/healthz") as port, worker_processes(1, environment):
            client = Client(port)
            session = client.json(
                "POST", "/api/v1/sessions", {"settings": {"compress_automatically": False}}
            )["id"]
            _record(client, session, range(STEPS))
            number, alone, meanwhile = STEPS, [], []
            for _ in range(ROUNDS):
                number, rate = _rate(client, session, number)
                alone.append(rate)
                with _run(client, session, strategy):
                    number, rate = _rate(client, session, number)
                    meanwhile.append(rate)
            return statistics.median(alone), statistics.median(meanwhile)


def _record(client: Client, session: str, numbers: range) -> None:
    for n in numbers:
        client.send("POST", f"/api/v1/sessions/{session}/actions", action(n))
        client.send("POST", f"/api/v1/sessions/{session}/results", result(n))


def _rate(client: Client, session: str, number: int) -> tuple[int, float]:
    begin, first = time.perf_counter(), number
    while time.perf_counter() - begin < SECONDS:
        _record(client, session, range(number, number + 10))
        number += 10
    return number, (number - first) / (time.perf_counter() - begin)


@contextmanager
def _model() -> Iterator[dict[str, str]]:
    """Starts the local model in a process, so that it does not delay the agent. Yields its variables."""
    command = [sys.executable, "-m", "tests.llm.loopback", "--latency", str(LATENCY)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline().removeprefix("export ").strip() for _ in range(4)]
    try:
        yield dict(line.split("=", 1) for line in lines)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _run(client: Client, session: str, strategy: str) -> Iterator[None]:
    """A run that lasts for the whole block. It compresses the same steps again each time."""
    path = f"/api/v1/sessions/{session}/compressions"
    request: dict[str, Any] = {"strategy": strategy, "from_step": 1, "to_step": STEPS, "again": True}
    if strategy == "episode_summary":
        request["model"] = "gpt-5-mini"
    run = client.json("POST", path, request)
    while client.json("GET", f"{path}/{run['id']}")["done"] == 0:
        time.sleep(0.02)
    yield
    if client.json("GET", f"{path}/{run['id']}")["state"] == "running":
        client.send("DELETE", f"{path}/{run['id']}")
    time.sleep(1)


@contextmanager
def _database(name: str, folder: Path) -> Iterator[dict[str, str]]:
    if name == "SQLite":
        yield {}
        return
    data = folder / "postgres"
    try:
        yield {"DATABASE_URL": start_postgres(data, durable=True)}
    finally:
        stop_postgres(data)


if __name__ == "__main__":
    main()
