"""Kills web server, workers and Redis 200 times, in random order, while 2,000 steps are compressed.

Afterwards every step must have exactly one summary. The number of model calls must be at most 1.05 a step,
plus one for each model call that could have been running at a kill.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.importing import PREPARE, write_claude_code
from bench.machinery import ROOT, home, report
from tests.llm.loopback import Answer, Loopback
from tests.redis import Redis, redis_server

SLOTS = 8
"""Model calls that one worker makes at the same time."""
LATENCY = 1.0
"""Seconds that the model takes."""
STRATEGY = "episode_summary"


@dataclass
class Process:
    """A process that is killed and started again."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self.running = subprocess.Popen(
            self.command, cwd=ROOT, env=dict(self.environment), stdout=quiet, stderr=quiet
        )

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()


@dataclass
class Kills:
    """The outcome."""

    steps: int
    by_part: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    done_by_then: int = 0
    """The number of summaries at the last kill."""
    summaries: Counter[int] = field(default_factory=Counter)
    state: str = ""

    @property
    def wrong(self) -> int:
        """Steps without exactly one summary."""
        return sum(self.summaries[step] != 1 for step in range(1, self.steps + 1))

    @property
    def max_calls(self) -> float:
        workers = sum(count for part, count in self.by_part.items() if part != "redis")
        return 1.05 * self.steps + workers * SLOTS  # the server has a worker too


def main(steps: int = 2000, kills: int = 200, seed: int = 1) -> None:
    outcome = kill_while_compressing(steps, kills, random.Random(seed))
    killed = ", ".join(f"{part} {count}" for part, count in sorted(outcome.by_part.items()))
    rows = [
        (f"kills (seed {seed})", f"{outcome.by_part.total()}: {killed}", str(kills)),
        ("summaries at the last kill", f"{outcome.done_by_then:,}", ""),
        ("run", outcome.state, "succeeded"),
        ("steps without exactly one summary", str(outcome.wrong), "0"),
        (f"model calls for {steps:,} steps", f"{outcome.calls:,}", f"{outcome.max_calls:,.0f}"),
    ]
    report("Forced kills during a run", rows)


def kill_while_compressing(steps: int, kills: int, chance: random.Random, pause: float = 1.0) -> Kills:
    """Compresses a session while processes are killed, on average every ``pause`` seconds."""
    with home() as folder, redis_server() as redis, Loopback() as model:
        environment = _environment(folder, redis, model)
        session = _prepare(folder, steps, environment)
        outcome = Kills(steps)
        model.default = lambda _: _slow_answer()
        python = [sys.executable, "manage.py"]
        parts = [
            Process("web", [*python, "up", "--port", "0", "--no-demo"], environment),
            Process("worker 1", [*python, "worker"], environment),
            Process("worker 2", [*python, "worker"], environment),
        ]
        for part in parts:
            part.start()
        try:
            _manage(environment, "compress", session, "--strategy", STRATEGY, "--model", "gpt-5-mini",
                    "--from", "1", "--to", str(steps), "--no-wait")  # fmt: skip
            for _ in range(kills):
                time.sleep(pause * chance.uniform(0.2, 1.8))
                _kill_one(chance, parts, redis, outcome)
            outcome.done_by_then = int(_shell(environment, "Summary.objects.count()"))
            outcome.state = _wait(environment, 120 + steps / 10)
        finally:
            for part in parts:
                part.kill()
        outcome.calls = len(model.requests)
        outcome.summaries = Counter(_shell(environment, _SUMMARIES))
        return outcome


def _kill_one(chance: random.Random, parts: list[Process], redis: Redis, outcome: Kills) -> None:
    victim = chance.randrange(len(parts) + 1)
    if victim == len(parts):
        outcome.by_part["redis"] += 1
        redis.kill()
        redis.start()
        return
    part = parts[victim]
    outcome.by_part[part.name] += 1
    part.kill()
    part.start()


def _environment(folder: Path, redis: Redis, model: Loopback) -> dict[str, str]:
    return {
        **os.environ,
        **model.environment,
        "NO_PROXY": "127.0.0.1",
        "PLAYHEAD_HOME": str(folder / "home"),
        "REDIS_URL": redis.url,
        "PLAYHEAD_CONCURRENCY": str(SLOTS),
        "PLAYHEAD_CLAIM_SECONDS": "3",
        "PLAYHEAD_SWEEP_SECONDS": "1",
    }


def _prepare(folder: Path, steps: int, environment: Mapping[str, str]) -> str:
    """Creates a session with this many steps and returns its id."""
    file = folder / "session.jsonl"
    write_claude_code(file, steps)
    _manage(environment, "migrate", "--verbosity", "0")
    _manage(environment, "shell", "--no-imports", "-c", PREPARE)
    _manage(environment, "import", str(file))
    return str(_shell(environment, "str(Session.objects.get().pk)"))


def _slow_answer() -> Answer:
    time.sleep(LATENCY)
    return Answer(text="Read the module; it loads a path.", sizes=(1000,))


def _wait(environment: Mapping[str, str], seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = str(_shell(environment, "CompressionRun.objects.get().state"))
        if state not in ("queued", "running"):
            return state
        time.sleep(1)
    return "still running"


_SUMMARIES = "list(Summary.objects.filter(strategy='episode_summary').values_list('first_step', flat=True))"


def _shell(environment: Mapping[str, str], expression: str) -> Any:
    """Evaluates an expression with the models in a Django shell."""
    names = "CompressionRun, Session, Summary"
    code = f"import json; from historyapp.models import {names}; print(json.dumps({expression}))"
    return json.loads(_manage(environment, "shell", "--no-imports", "-c", code))


def _manage(environment: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment), check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
