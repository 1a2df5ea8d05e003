"""Kills processes while ten writers append, and compares the log with what was acknowledged.

The victims are the web process, ``playhead up`` alone, a worker and, with PostgreSQL, Redis and a backend of
PostgreSQL. The seed determines which process is killed, and when. In the end every acknowledged entry must be
stored once, at the acknowledged position; a reader of the events must have received each entry once; and a
rebuild of all projections must find no difference.
"""

import argparse
import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg

from bench.followers import Follower
from bench.machinery import KEY, ROOT, home, report
from tests.environment import start_postgres, stop_postgres
from tests.installation import Installation
from tests.redis import Redis, redis_server

WRITERS = 10
PATIENCE = 120
"""Seconds in which the servers must respond again after a kill."""
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}


@dataclass
class Writer:
    """Appends steps of two entries to a session of its own, and repeats each until it is acknowledged."""

    name: str
    port: int
    compressing: bool
    acknowledged: dict[str, list[int]] = field(default_factory=dict)
    """Positions by the text of the step."""
    repeated: int = 0
    """Requests that were sent more than once."""
    refused: str = ""
    """A response that no kill explains."""
    session: str = ""

    def run(self, stopping: threading.Event) -> None:
        session = {"title": self.name, "settings": {"compress_automatically": self.compressing}}
        self.session = str(self._deliver("/sessions", session, self.name)["id"])
        while not stopping.is_set() and not self.refused:
            text = f"{self.name}.{len(self.acknowledged)}"
            path = f"/sessions/{self.session}/entries"
            response = self._deliver(path, {"entries": step(text)}, text)
            if not self.refused:
                self.acknowledged[text] = response["positions"]
            time.sleep(0.02)

    def _deliver(self, path: str, body: object, key: str) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        for attempt in range(sys.maxsize):
            status, response = request(self.port, "POST", path, body, key)
            self.repeated += attempt == 1
            if status == 201:
                return dict(response)
            if status and status < 500:
                self.refused = f"{path}: {status} {response}"
                return {"id": ""}
            if time.monotonic() > end:
                self.refused = f"{path}: no answer in {PATIENCE} s, the last of {attempt + 1} was {status}"
                return {"id": ""}
            time.sleep(0.05)
        raise AssertionError


def step(text: str) -> list[dict[str, Any]]:
    call = {"id": text, "name": "read", "arguments": {"path": f"{text}.py"}}
    outputs = {"status": "success", "tool_call_id": text, "outputs": f"def {text.replace('.', '_')}(): ..."}
    return [{"kind": "model_output", "tool_calls": [call]}, {"kind": "tool_results", "results": [outputs]}]


def request(port: int, method: str, path: str, body: object = None, key: str = "") -> tuple[int, Any]:
    """Status and response; 0 if no complete response arrived."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = HEADERS | ({"Idempotency-Key": key} if key else {})
    try:
        data = None if body is None else json.dumps(body)
        client.request(method, f"/api/v1{path}", data, headers)
        response = client.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}
    finally:
        client.close()


class Server:
    """``playhead up``, which is restarted at once."""

    def __init__(self, at: Installation, port: int) -> None:
        self.failed_starts: list[str] = []
        """The output of each process."""
        self._at, self._port = at, port
        self._logs = (at.home.with_name(f"up-{number}.log") for number in itertools.count())
        self._log = next(self._logs)
        self._process: subprocess.Popen[str] | None = None
        self._orphans: list[psutil.Process] = []

    def start(self) -> None:
        command = [sys.executable, "manage.py", "up", "--no-demo", "--port", str(self._port)]
        self._log = next(self._logs)  # processes of the killed server still write to the old log
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._at.environment, stdout=log, stderr=log, text=True
            )

    def kill_web(self) -> None:
        """``playhead up`` then ends too."""
        assert self._process is not None
        for child in self._children():
            if "worker" not in child.cmdline():
                child.kill()
        self._process.wait(PATIENCE)
        self.start()

    def kill_parent(self) -> None:
        """Its web process ends a moment later; the next server must wait for the port."""
        assert self._process is not None
        self._orphans += self._children()
        self._process.kill()
        self._process.wait()
        self.start()

    def wait(self) -> None:
        """Returns when the server responds. A server that ended instead is counted and restarted."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                self.failed_starts.append(self._log.read_text()[-1000:])
                self.start()
            elif self._children() and request(self._port, "GET", "/project")[0] == 200:
                return
            time.sleep(0.05)
        raise SystemExit(f"the server did not answer for {PATIENCE} s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)
        psutil.wait_procs(self._orphans, timeout=20)

    def _children(self) -> list[psutil.Process]:
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            return list(psutil.Process(self._process.pid).children())
        return []


class Worker:
    def __init__(self, at: Installation) -> None:
        self._at = at
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        command = [sys.executable, "manage.py", "worker"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=self._at.environment, stdout=quiet, stderr=quiet, text=True
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()


def kill_redis(redis: Redis) -> None:
    redis.kill()
    redis.start()


def kill_backend(url: str, chance: random.Random) -> None:
    """PostgreSQL then ends all its backends and recovers."""
    others = "SELECT pid FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()"
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(psycopg.OperationalError, ProcessLookupError), psycopg.connect(url) as connection:
            if pids := sorted(pid for (pid,) in connection.execute(others)):
                os.kill(chance.choice(pids), signal.SIGKILL)
                return
        time.sleep(0.05)  # PostgreSQL is still recovering from the previous kill


@dataclass
class Outcome:
    """The killed processes, and entries that are missing in the log or stored twice."""

    by_part: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    repeated: int = 0
    lost: int = 0
    doubled: int = 0
    partial: int = 0
    misplaced: int = 0
    refused: list[str] = field(default_factory=list)
    failed_starts: list[str] = field(default_factory=list)
    summaries: int = 0
    doubled_summaries: int = 0
    rebuilt: str = ""
    follower: Follower = field(default_factory=Follower)
    events_lost: int = 0

    def compare(self, writer: Writer, stored: list[dict[str, Any]]) -> None:
        """Compares a session's entries with the responses that its writer received."""
        found: dict[str, list[int]] = {}
        for entry in stored:
            (part,) = entry.get("tool_calls") or entry["results"]
            found.setdefault(part.get("id") or part["tool_call_id"], []).append(entry["position"])
        self.acknowledged += 2 * len(writer.acknowledged)
        self.repeated += writer.repeated
        self.refused += [writer.refused] if writer.refused else []
        self.partial += sum(len(positions) % 2 for positions in found.values())
        self.doubled += sum(len(positions) > 2 for positions in found.values())
        for text, positions in writer.acknowledged.items():
            self.lost += text not in found
            self.misplaced += text in found and found[text] != positions


def kill_under_writers(
    folder: Path,
    kills: int,
    chance: random.Random,
    *,
    url: str = "",
    redis: Redis | None = None,
    compressing: bool = True,
) -> Outcome:
    """Kills processes of an installation in ``folder`` while its writers append.

    Args:
        url: of PostgreSQL; empty: SQLite.
        redis: the broker; None: the database's table.
        compressing: whether the steps are compressed; without it no worker runs, and none is killed.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    at = installation(folder, url, redis)
    server, worker, outcome = Server(at, port), Worker(at), Outcome()
    victims = [("web", server.kill_web), ("parent", server.kill_parent)]
    victims += [("worker", worker.kill_and_start)] if compressing else []
    victims += [("redis", partial(kill_redis, redis))] if redis else []
    victims += [("backend", partial(kill_backend, url, chance))] if url else []
    writers = [Writer(f"writer{number}", port, compressing) for number in range(WRITERS)]
    stopping = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stopping,), daemon=True) for writer in writers]
    server.start()
    try:
        server.wait()
        outcome.follower.start(port)
        if compressing:
            worker.start()
        for thread in threads:
            thread.start()
        for number in range(kills):
            time.sleep(chance.uniform(0.05, 1))
            part, kill = victims[number] if number < len(victims) else chance.choice(victims)
            kill()
            outcome.by_part[part] += 1
            wait_for_progress(server, writers)
        stopping.set()
        for thread in threads:
            thread.join(PATIENCE)
        settle(at, outcome)
        compare_all(outcome, writers)
    finally:
        stopping.set()
        outcome.follower.stop()
        worker.kill()
        server.stop()
    outcome.failed_starts = server.failed_starts
    outcome.rebuilt = at.manage("rebuild-projections", "--check").strip()
    return outcome


def installation(folder: Path, url: str, redis: Redis | None) -> Installation:
    own = {"PLAYHEAD_HOME": str(folder), "DATABASE_URL": url, "PLAYHEAD_API_KEY": KEY, "DEBUG": ""}
    # Without it, PostgreSQL loses acknowledged entries of backends that were killed.
    own["PLAYHEAD_SYNCHRONOUS"] = "FULL"
    broker = {"REDIS_URL": redis.url} if redis else {}
    times = {"PLAYHEAD_CLAIM_SECONDS": "3", "PLAYHEAD_SWEEP_SECONDS": "1"}
    return Installation(folder, {**os.environ, **own, **broker, **times})


def compare_all(outcome: Outcome, writers: Sequence[Writer]) -> None:
    """Compares the stored entries with the acknowledged ones, and with the events."""
    stored = set()
    for writer in writers:
        entries = entries_of(writer.port, writer.session)
        outcome.compare(writer, entries)
        stored |= {(UUID(writer.session), entry["position"]) for entry in entries}
    outcome.events_lost = outcome.follower.lost(stored, PATIENCE)


def wait_for_progress(server: Server, writers: Sequence[Writer]) -> None:
    """Waits until an append is acknowledged again, so that each kill happens while writers append."""
    server.wait()
    before = sum(len(writer.acknowledged) for writer in writers)
    end = time.monotonic() + PATIENCE
    while sum(len(writer.acknowledged) for writer in writers) <= before and time.monotonic() < end:
        time.sleep(0.02)


def settle(at: Installation, outcome: Outcome) -> None:
    """Waits for the compressions, and counts the summaries."""
    end = time.monotonic() + PATIENCE
    active = "SELECT 1 FROM historyapp_compressionrun WHERE state IN ('queued', 'running')"
    while at.rows(active) and time.monotonic() < end:
        time.sleep(0.2)
    counts = at.rows(
        "SELECT count(*) FROM historyapp_summary GROUP BY made_in_id, first_step, last_step, level"
    )
    outcome.summaries = sum(count for (count,) in counts)
    outcome.doubled_summaries = sum(count > 1 for (count,) in counts)


def entries_of(port: int, session: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    cursor = ""
    while True:
        status, page = request(port, "GET", f"/sessions/{session}/entries?limit=500{cursor}")
        if status != 200:
            raise SystemExit(f"the entries of {session}: {status} {page}")
        entries += page["items"]
        if not page["next"]:
            return entries
        cursor = f"&cursor={page['next']}"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with ExitStack() as stack:
        folder, url, redis = stack.enter_context(home()), "", None
        if options.database == "postgres":
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="playhead-kills-"))) / "data"
            url = start_postgres(data, durable=True)
            stack.callback(stop_postgres, data)
            redis = stack.enter_context(redis_server())
        seen = kill_under_writers(
            folder / "home", options.kills, random.Random(options.seed), url=url, redis=redis
        )
    killed = ", ".join(f"{part} {count}" for part, count in sorted(seen.by_part.items()))
    report(
        f"Forced kills under {WRITERS} writers on {options.database}",
        [
            (f"kills (seed {options.seed})", f"{seen.by_part.total():,}: {killed}", f"{options.kills:,}"),
            ("minutes", f"{(time.monotonic() - started) / 60:.1f}", ""),
            ("acknowledged entries", f"{seen.acknowledged:,}", ""),
            ("requests that were repeated", f"{seen.repeated:,}", ""),
            ("entries lost", str(seen.lost), "0"),
            ("steps doubled", str(seen.doubled), "0"),
            ("steps stored in part", str(seen.partial), "0"),
            ("steps at another position", str(seen.misplaced), "0"),
            ("requests refused", f"{len(seen.refused)} {seen.refused[:3] or ''}", "0"),
            ("starts after a kill that failed", f"{len(seen.failed_starts)} {seen.failed_starts or ''}", "0"),
            (
                "events lost, doubled",
                f"{seen.events_lost}, {seen.follower.doubled()} {seen.follower.failed}",
                "0, 0",
            ),
            ("summaries, of them doubled", f"{seen.summaries:,}, {seen.doubled_summaries}", "0"),
            ("rebuild", seen.rebuilt, "no differences"),
        ],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
