"""The time of a compression run, compared with the time that its model calls need, with one worker and two.

The model is a local server that responds after 200 ms. The broker is Redis. Workers are processes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from bench.importing import PREPARE, write_claude_code
from bench.machinery import KEY, ROOT, Client, home, report, server
from tests.llm.loopback import Answer, Loopback
from tests.redis import redis_server

LATENCY = 0.2
"""Seconds that the model takes."""
CONCURRENCY = 8
"""Model calls that one worker makes at the same time."""


def main(steps: int = 1000) -> None:
    rows = []
    for workers in (1, 2):
        seconds, _ = _measure(steps, workers)
        ideal = steps * LATENCY / (CONCURRENCY * workers)
        figure = f"{seconds:.1f} s, ideal {ideal:.1f} s: **{seconds / ideal:.2f}**"
        rows.append((f"{steps:,} steps, {workers} worker{'s' * (workers > 1)}", figure, "1.25"))
    small, large = 100, 10_000
    peaks = [_measure(count, 1, strategy="simple_extract")[1] for count in (small, large)]
    figure = f"{peaks[0]} MB → {peaks[1]} MB"
    rows.append((f"peak memory of a worker, {small} → {large:,} steps", figure, "flat"))
    report(f"Compression with a model that takes {LATENCY * 1000:.0f} ms", rows)


def _measure(steps: int, workers: int, strategy: str = "episode_summary") -> tuple[float, int]:
    """Seconds from the run's first claim to its end, and the largest worker's peak memory in MB."""
    with home() as folder, redis_server() as redis, Loopback() as model:
        model.default = answer_slowly
        environment = {
            **os.environ, **model.environment, "NO_PROXY": "127.0.0.1", "PLAYHEAD_HOME": str(folder / "home"),
            "REDIS_URL": redis.url, "PLAYHEAD_API_KEY": KEY, "PLAYHEAD_CONCURRENCY": str(CONCURRENCY),
        }  # fmt: skip
        file = folder / "session.jsonl"
        write_claude_code(file, steps)
        for arguments in (
            ["migrate", "--verbosity", "0"],
            ["shell", "--no-imports", "-c", PREPARE],
            ["import", str(file)],
        ):
            command = [sys.executable, "manage.py", *arguments]
            subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        with (
            server("historyapp.asgi:application", environment, "/healthz") as port,
            worker_processes(workers, environment) as running,
        ):
            client = Client(port)
            session = client.json("GET", "/api/v1/sessions")["items"][0]["id"]
            request: dict[str, Any] = {"strategy": strategy, "from_step": 1, "to_step": steps}
            if strategy == "episode_summary":
                request["model"] = "gpt-5-mini"
            run = client.json("POST", f"/api/v1/sessions/{session}/compressions", request)
            return _wait(client, f"/api/v1/sessions/{session}/compressions/{run['id']}", steps, running)


def _wait(client: Client, path: str, steps: int, running: list[psutil.Process]) -> tuple[float, int]:
    peak, begin = 0, None
    while True:
        run = client.json("GET", path)
        peak = max(peak, *(process.memory_info().rss for process in running))
        if begin is None and run["state"] == "running":
            begin = time.perf_counter()
        if run["state"] not in ("queued", "running"):
            break
        time.sleep(0.05)
    if (run["state"], run["done"]) != ("succeeded", steps):
        raise SystemExit(f"the run did not succeed: {json.dumps(run)}")
    return time.perf_counter() - (begin or 0), peak >> 20


def answer_slowly(_: object) -> Answer:
    """The answer of the local model, after its latency."""
    time.sleep(LATENCY)
    return Answer(text="Read the module; it loads a path and splits its lines.", sizes=(1000,))


@contextmanager
def worker_processes(count: int, environment: dict[str, str]) -> Iterator[list[psutil.Process]]:
    """Starts worker processes and waits until they are ready."""
    command = [sys.executable, "manage.py", "worker"]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield [psutil.Process(process.pid) for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
