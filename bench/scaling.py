"""Several web processes and workers with one PostgreSQL and one Redis: the cost of one more process.

On two cores, more processes are not faster. So this measures the processor time of web processes, PostgreSQL,
Redis and workers for each request, and how long requests wait for locks. Then it kills parts while agents
record: ``python -m bench.scaling [SECONDS [FAULT_SECONDS [SEED]]]``. With 0 seconds it only does that.
"""

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGQUIT, SIGTERM, signal
from typing import Any

import psycopg

from bench.machinery import KEY, ROOT, action, home, report, result
from bench.machines import (
    REDIS_PORT,
    WEB_PORT,
    Network,
    Part,
    empty_redis,
    network,
    postgres_part,
    postgres_url,
    redis_part,
    wait_for,
    wait_for_postgres,
    web,
    worker,
)

AGENTS = 8
SAMPLE_SECONDS = 0.02
_WAITS = (
    "SELECT coalesce(wait_event_type || ' ' || wait_event, 'none') FROM pg_stat_activity "
    "WHERE state = 'active' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@dataclass
class Installation:
    """PostgreSQL, Redis, and the processes that use them."""

    network: Network
    folder: Path
    environment: dict[str, str]
    postgres: Part
    redis: Part
    webs: list[Part] = field(default_factory=list)
    workers: list[Part] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        return [machine.address for machine in self.network.machines[: len(self.webs)]]

    @contextmanager
    def processes(self, webs: int, workers: int) -> Iterator[None]:
        """This many web processes and workers, each on a machine of its own."""
        machines = iter(self.network.machines)
        self.webs = [web(next(machines), self.folder, self.environment) for _ in range(webs)]
        self.workers = [worker(next(machines), self.folder, self.environment) for _ in range(workers)]
        try:
            for part in (*self.webs, *self.workers):
                part.start()
            for address in self.addresses:
                wait_for(address, WEB_PORT)
            time.sleep(len(self.workers))  # workers load spaCy, which is not a cost of requests
            yield
        finally:
            for part in (*self.webs, *self.workers):
                part.stop()
            self.webs, self.workers = [], []

    def used(self) -> dict[str, float]:
        return {
            "web": sum(part.used() for part in self.webs),
            "workers": sum(part.used() for part in self.workers),
            "PostgreSQL": self.postgres.used(),
            "Redis": self.redis.used(),
        }

    def rows(self, statement: str) -> list[Any]:
        with psycopg.connect(postgres_url(self.network.host)) as connection:
            return connection.execute(statement.encode()).fetchall()


class Agent(threading.Thread):
    """Records steps in a session of its own. It retries at other web processes until each is acknowledged."""

    def __init__(self, addresses: list[str], seconds: float, name: str, compress: bool = False) -> None:
        super().__init__(daemon=True)
        self.addresses, self.seconds, self.label = addresses, seconds, name
        self.times: list[float] = []
        self.acknowledged: list[int] = []
        """Positions of the entries, in order."""
        self.retries = 0
        self._connection: http.client.HTTPConnection | None = None
        settings = {"compress_automatically": compress, "compression_strategy": "simple_extract"}
        self.session = self._send("/api/v1/sessions", {"settings": settings}, f"{name}-session")["id"]

    def run(self) -> None:
        number, end = 0, time.monotonic() + self.seconds
        while time.monotonic() < end:
            number += 1
            for kind, body in (("actions", action(number)), ("results", result(number))):
                started = time.monotonic()
                path = f"/api/v1/sessions/{self.session}/{kind}"
                self.acknowledged.append(self._send(path, body, f"{self.label}-{number}-{kind}")["position"])
                self.times.append(time.monotonic() - started)

    def _send(self, path: str, body: dict[str, Any], key: str) -> Any:
        headers = {
            "Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Idempotency-Key": key,
        }  # fmt: skip
        while True:
            try:
                self._connection = self._connection or http.client.HTTPConnection(
                    random.choice(self.addresses), WEB_PORT, timeout=10
                )
                self._connection.request("POST", path, json.dumps(body), headers)
                response = self._connection.getresponse()
                content = response.read()
                if response.status == 201:
                    return json.loads(content)
                if response.status not in (429, 500, 502, 503):
                    raise SystemExit(f"{path}: {response.status} {content[:500]!r}")
            except (OSError, http.client.HTTPException):
                pass
            self.retries += 1
            if self._connection:
                self._connection.close()
            self._connection = None
            time.sleep(0.05)


@dataclass
class Figures:
    webs: int
    requests: int
    seconds: float
    times: list[float]
    milliseconds: dict[str, float]
    """Processor time for each request, by part."""
    waits: dict[str, float]
    """Milliseconds that PostgreSQL's backends wait for each request, by what they wait for."""

    def row(self) -> tuple[str, str, str]:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.milliseconds.items())
        waits = ", ".join(f"{name} {value:.2f}" for name, value in sorted(self.waits.items()))
        p95 = statistics.quantiles(self.times, n=20)[-1] * 1000
        figure = (
            f"{self.requests / self.seconds:.0f} requests/s, "
            f"median {statistics.median(self.times) * 1000:.1f} ms, 95 % within {p95:.1f} ms; "
            f"processor ms for each: {parts}; backends wait, ms for each: {waits}"
        )
        return f"{self.webs} web, {self.webs} workers", figure, ""


def main(seconds: float = 6.0, fault_seconds: float = 60.0, seed: float = 1) -> None:
    signal(SIGTERM, lambda *_: sys.exit(1))  # so that the started processes are stopped too
    with home() as folder, network(8) as net, _installation(net, folder) as installed:
        for count in (1, 2, 4) if seconds else ():
            with installed.processes(count, count):
                rows = [("machines", net.kind, ""), measure(installed, seconds).row()]
                report(f"{count} web processes, {count} workers", rows + idle(installed, seconds))
        with installed.processes(4, 2):
            rows = survive(installed, fault_seconds, random.Random(seed))
            report(f"4 web processes, 2 workers, and faults for {fault_seconds:.0f} seconds", rows)


@contextmanager
def _installation(net: Network, folder: Path) -> Iterator[Installation]:
    postgres, redis = postgres_part(net.host, folder / "postgres"), redis_part(net.host)
    environment = {
        **os.environ, "DATABASE_URL": postgres_url(net.host), "PLAYHEAD_API_KEY": KEY, "NO_PROXY": "*",
        "REDIS_URL": f"redis://{net.host}:{REDIS_PORT}/0", "SECRET_KEY": "bench " * 12,
        "PLAYHEAD_CLAIM_SECONDS": "3", "PLAYHEAD_SWEEP_SECONDS": "1", "PLAYHEAD_HOME": str(folder / "host"),
    }  # fmt: skip
    try:
        postgres.start()
        redis.start()
        wait_for_postgres(net.host)
        for arguments in (["migrate", "-v0"], ["keys", "list"]):
            subprocess.run(
                [sys.executable, "manage.py", *arguments],
                cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        yield Installation(net, folder, environment, postgres, redis)
    finally:
        postgres.kill(SIGQUIT)
        redis.kill()


def measure(installed: Installation, seconds: float) -> Figures:
    """Measures each request's processor time by part, and what the backends wait for, while agents record."""
    _run(_agents(installed, 1.5, "warm"))
    waits, stop = Counter[str](), threading.Event()
    sampler = threading.Thread(target=_sample, args=(installed, waits, stop))
    agents = _agents(installed, seconds, f"{len(installed.webs)}")
    before, started = installed.used(), time.monotonic()
    sampler.start()
    _run(agents)
    stop.set()
    taken = time.monotonic() - started
    after = installed.used()
    sampler.join()
    requests = sum(len(agent.times) for agent in agents)
    return Figures(
        len(installed.webs),
        requests,
        taken,
        [seconds_taken for agent in agents for seconds_taken in agent.times],
        {name: (after[name] - before[name]) / requests * 1000 for name in after},
        {kind: count * SAMPLE_SECONDS / requests * 1000 for kind, count in waits.items() if kind != "none"},
    )


def _agents(installed: Installation, seconds: float, label: str, compress: bool = False) -> list[Agent]:
    """Agents that have created their sessions."""
    prefix = f"{label}-{time.time_ns()}"
    return [Agent(installed.addresses, seconds, f"{prefix}-{n}", compress) for n in range(AGENTS)]


def _run(agents: list[Agent]) -> None:
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join()


def _sample(installed: Installation, waits: Counter[str], stop: threading.Event) -> None:
    with psycopg.connect(postgres_url(installed.network.host), autocommit=True) as connection:
        while not stop.wait(SAMPLE_SECONDS):
            waits.update(kind for (kind,) in connection.execute(_WAITS.encode()))


def idle(installed: Installation, seconds: float) -> list[tuple[str, str, str]]:
    """The cost of the processes while they get no requests."""
    time.sleep(1)
    before = installed.used()
    time.sleep(seconds)
    share = {name: (value - before[name]) / seconds * 100 for name, value in installed.used().items()}
    count = len(installed.webs)
    parts = ", ".join(f"{name} {value:.1f} %" for name, value in share.items())
    memory = (
        f"a web process {installed.webs[0].memory():.0f} MB, a worker {installed.workers[0].memory():.0f} MB"
    )
    return [(f"{count} web, {count} workers, idle", f"of a core: {parts}; memory: {memory}", "")]


def survive(installed: Installation, seconds: float, chance: random.Random) -> list[tuple[str, str, str]]:
    """Kills and restarts parts while agents record. Then every acknowledged entry must be in the log."""
    done, stop = Counter[str](), threading.Event()
    agents = _agents(installed, seconds, "faults", compress=True)
    killer = threading.Thread(target=_kill_parts, args=(installed, agents, chance, done, stop))
    ended = threading.Timer(seconds, stop.set)  # otherwise the last requests might never be acknowledged
    killer.start()
    ended.start()
    _run(agents)
    stop.set()
    killer.join()
    lost = doubled = 0
    for agent in agents:
        rows = installed.rows(
            f"SELECT position FROM historyapp_entry WHERE session_id = '{agent.session}' ORDER BY 1"
        )
        positions = [position for (position,) in rows]
        lost += len(set(agent.acknowledged) - set(positions))
        doubled += len(positions) - len(set(agent.acknowledged))
    slowest = max(seconds_taken for agent in agents for seconds_taken in agent.times)
    entries = sum(len(agent.acknowledged) for agent in agents)
    events = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
    return [
        ("faults", events, ""),
        ("entries acknowledged", f"{entries:,}, with {sum(a.retries for a in agents):,} retries", ""),
        ("lost, doubled or partial", f"{lost}, {doubled}", "0"),
        ("the longest time until an entry was acknowledged", f"{slowest:.1f} s", ""),
        ("steps without exactly one summary", _wrong_summaries(installed, agents), "0"),
    ]


def _kill_parts(
    installed: Installation,
    agents: list[Agent],
    chance: random.Random,
    done: Counter[str],
    stop: threading.Event,
) -> None:
    """Kills a part again and again, but only if an entry was acknowledged since the last time."""
    kinds = ["web", "worker", "PostgreSQL", "Redis killed", "Redis emptied"]
    turn = acknowledged = 0
    while not stop.wait(chance.uniform(0.5, 1.5)):
        for other_part in (*installed.webs, *installed.workers):
            other_part.restart_if_ended()
        before, acknowledged = acknowledged, sum(len(agent.acknowledged) for agent in agents)
        if acknowledged == before:
            continue
        kind = kinds[turn % len(kinds)]
        turn += 1
        done[kind] += 1
        if kind == "Redis emptied":
            with suppress(Exception):
                empty_redis(installed.network.host)
            continue
        parts = {"web": installed.webs, "worker": installed.workers}
        parts |= {"PostgreSQL": [installed.postgres], "Redis killed": [installed.redis]}
        part = chance.choice(parts[kind])
        part.kill(*([SIGQUIT] if kind == "PostgreSQL" else []))
        part.start()
    wait_for_postgres(installed.network.host)
    for other_part in (*installed.webs, *installed.workers):
        other_part.restart_if_ended()


def _wrong_summaries(installed: Installation, agents: list[Agent]) -> str:
    """How many of the steps that compressions have handled have not exactly one summary."""
    sessions = ", ".join(f"'{agent.session}'" for agent in agents)
    left = (
        "SELECT 1 FROM historyapp_compressionrun WHERE state IN ('queued', 'running') "
        "UNION ALL SELECT 1 FROM historyapp_session WHERE compression_due"
    )
    end = time.monotonic() + 120
    while installed.rows(left):
        if time.monotonic() > end:
            return "the runs did not end"
        time.sleep(0.5)
    wrong = installed.rows(
        "SELECT count(*) FROM (SELECT e.session_id, e.number, count(s.id) AS found FROM historyapp_episode e "
        "JOIN historyapp_session t ON t.id = e.session_id AND e.number <= t.compressed_to "
        "LEFT JOIN historyapp_summary s ON s.session_id = e.session_id AND s.first_step = e.number "
        f"WHERE t.id IN ({sessions}) GROUP BY 1, 2) AS steps WHERE found <> 1"
    )
    total = installed.rows(f"SELECT sum(compressed_to) FROM historyapp_session WHERE id IN ({sessions})")
    return f"{wrong[0][0]} of {total[0][0]:,}"


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:4]))
