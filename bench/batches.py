"""The cost of a POST with one step and with 100 steps, compared with bare endpoints for the same JSON.

The bare bulk endpoint inserts as many rows as Playhead: the entries, a row for each step, and the session.
Processor time is that of the servers. It can be compared even while other programs use the machine.

``python -m bench.batches ROUNDS PYTHON`` also measures the minimal endpoints of ``../shared/bench``, which
check the JSON with django-ninja and insert one row for each step. PYTHON needs Django, django-ninja,
granian and orjson.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.machinery import (
    Client,
    action,
    alternate,
    home,
    playhead,
    processor_time,
    report,
    result,
    server,
)
from tests.shared import SHARED

STEPS = 100
ROWS = 2 * STEPS + STEPS + 1
_PEERS = SHARED / "bench" / "peers"


def entries(first: int, steps: int) -> dict[str, Any]:
    """A body of POST …/entries with an output and its results for each step."""
    drafts: list[dict[str, Any]] = []
    for number in range(first, first + steps):
        drafts.append({"kind": "model_output", **action(number)})
        drafts.append({"kind": "tool_results", "results": [result(number)]})
    return {"entries": drafts}


def _flat_step(number: int) -> dict[str, Any]:
    """The same step in the form of the minimal endpoints."""
    proposal = action(number)
    tool = proposal["use_tool"]
    return {
        "session": "s0",
        "seq": number,
        "call_id": f"call_{number}",
        "tool": tool["name"],
        "thought": proposal["thoughts"],
        "args": json.dumps(tool["arguments"]),
        "result": result(number)["outputs"],
    }


@contextmanager
def _minimal_server(python: str) -> Iterator[int]:
    """The minimal endpoints of ``../shared/bench``, on SQLite with durable commits. Yields the port."""
    with home() as folder:
        database = {"BENCH_DB": f"sqlite:{folder}/bench.db", "BENCH_SYNC": "FULL", "PYTHONPATH": str(_PEERS)}
        prepare = {**os.environ, **database, "BENCH_INIT": "1"}
        subprocess.run([python, "dj_app.py"], cwd=_PEERS, env=prepare, check=True)
        with server("dj_app:wsgi", database, "/hello", python=python) as port:
            yield port


class Cost(NamedTuple):
    """Of one POST, in milliseconds."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} ms, of processor time {self.processor:.2f} ms"


def processes_of(folder: Path) -> list[int]:
    """The ids of the server's processes: they have the data folder in their environment."""
    children = psutil.Process().children(recursive=True)
    return [child.pid for child in children if str(folder) in child.environ().values()]


def main(rounds: int = 300, python: str | None = None) -> None:
    with (
        home() as playhead_home,
        home() as bare_home,
        playhead(playhead_home) as port,
        server("bench.bare:application", {"BARE_HOME": str(bare_home)}, "/setup") as bare_port,
        _minimal_server(python) if python else nullcontext() as minimal_port,
    ):
        client, bare = Client(port), Client(bare_port)
        minimal_client = Client(minimal_port) if minimal_port else None
        settings = {"settings": {"compress_automatically": False}}
        path = f"/api/v1/sessions/{client.json('POST', '/api/v1/sessions', settings)['id']}/entries"
        number = iter(range(1 << 30))

        servers = [processes_of(folder) for folder in (playhead_home, bare_home)]

        def costs(steps: int, floor: str, rounds: int) -> tuple[Cost, Cost, float]:
            """Of a POST with this many steps: the costs in Playhead and of the bare endpoint at this path
            (``floor``), and the time of the minimal endpoint."""

            def post_minimal() -> object:
                batch = [_flat_step(next(number)) for _ in range(steps)]
                if minimal_client is None:
                    return None
                return minimal_client.send(
                    "POST", *(("/api/steps", batch[0]) if steps == 1 else ("/api/batch", batch))
                )

            jobs = (
                lambda: client.send("POST", path, entries(next(number) * steps, steps)),
                lambda: bare.send("POST", floor, entries(next(number) * steps, steps)),
                post_minimal,
            )
            alternate(*jobs, rounds=20)
            before = [processor_time(processes) for processes in servers]
            times = alternate(*jobs, rounds=rounds)
            used = [processor_time(processes) - then for processes, then in zip(servers, before, strict=True)]
            ours, floor_cost = [
                Cost(clock, spent / rounds) for clock, spent in zip(times[:2], used, strict=True)
            ]
            return ours, floor_cost, times[2]

        step, insert, minimal_step = costs(1, "/insert/1", rounds * 3)
        batch, bulk, minimal_batch = costs(STEPS, f"/bulk/{ROWS}", rounds)
    rows = _bare_rows(step, insert, batch, bulk)
    if python:
        rows += _minimal_rows(step, batch, minimal_step, minimal_batch)
    report("Appending by the POST", rows)


def _bare_rows(step: Cost, insert: Cost, batch: Cost, bulk: Cost) -> list[tuple[str, str, str]]:
    share = f"{bulk.clock / batch.clock:.2f}** (of processor time {bulk.processor / batch.processor:.2f})"
    ratio = f"{step.clock / insert.clock:.2f}** (of processor time {step.processor / insert.processor:.2f})"
    return [
        ("action and result of a step in one POST", str(step), ""),
        ("bare endpoint, 1 insert of the same JSON", str(insert), ""),
        ("**ratio**", f"**{ratio}", "2"),
        (f"{STEPS} steps in one POST", f"{batch}, {ROWS / batch.clock * 1000:,.0f} rows a second", ""),
        (f"bare endpoint, {ROWS} inserts", f"{bulk}, {ROWS / bulk.clock * 1000:,.0f} rows a second", ""),
        ("**share of its rows a second**", f"**{share}", "0.5"),
    ]


def _minimal_rows(
    step: Cost, batch: Cost, minimal_step: float, minimal_batch: float
) -> list[tuple[str, str, str]]:
    rate = f"{STEPS / minimal_batch * 1000:,.0f} rows a second"
    return [
        ("minimal endpoint, 1 step", f"{minimal_step:.2f} ms", ""),
        ("ratio of one POST to it", f"{step.clock / minimal_step:.2f}", "2"),
        (f"minimal endpoint, {STEPS} steps", f"{minimal_batch:.2f} ms, {rate}", ""),
        ("share of its rows a second", f"{minimal_batch / batch.clock * ROWS / STEPS:.2f}", "0.5"),
        ("share of its steps a second", f"{minimal_batch / batch.clock:.2f}", ""),
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300, sys.argv[2] if sys.argv[2:] else None)
