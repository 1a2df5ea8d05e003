"""The cost of an action with its result on PostgreSQL, here and in another checkout: `… ../before`.

Both servers run at the same time, on databases of one PostgreSQL, and record alternately. Processor time is
that of a server and its backends. The difference is the median of 240 turns, because other programs may use
the machine.
"""

import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from bench.append_before import serving
from bench.machinery import ROOT, Client, action, home, machine, processor_time, report, result
from tests.environment import start_postgres, stop_postgres

SESSIONS = 64
WARM, TURNS, APPENDS = 200, 240, 10


class Side:
    """A server and the sessions that it appends to."""

    def __init__(self, port: int, database: str) -> None:
        self._client = Client(port)
        settings = {"settings": {"compress_automatically": False}}
        self._sessions = [
            self._client.json("POST", "/api/v1/sessions", settings)["id"] for _ in range(SESSIONS)
        ]
        self._number = 0
        self._database = database
        for _ in range(WARM):
            self.append()
        self._processes = list(self._find())

    def _find(self) -> Iterator[int]:
        """The ids of the server's processes and of the backends, whose titles name the database."""
        for process in psutil.process_iter(["cmdline", "environ"]):
            title = " ".join(process.info["cmdline"] or ())
            serves = f"/{self._database}?" in (process.info["environ"] or {}).get("DATABASE_URL", "")
            if serves or (title.startswith("postgres:") and f" {self._database} " in title):
                yield process.pid

    def used(self) -> float:
        return processor_time(self._processes)

    def append(self) -> float:
        """Records an action and its result. Returns the milliseconds that both answers took."""
        session = self._sessions[self._number % SESSIONS]
        self._number += 1
        started = time.perf_counter()
        self._client.send("POST", f"/api/v1/sessions/{session}/actions", action(self._number))
        self._client.send("POST", f"/api/v1/sessions/{session}/results", result(self._number))
        return (time.perf_counter() - started) * 1000


@contextmanager
def databases(folder: Path) -> Iterator[list[str]]:
    """The URLs of two databases of a PostgreSQL that does not wait for the disk."""
    server = start_postgres(folder / "postgres", durable=False)
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE DATABASE earlier")
            connection.execute("CREATE DATABASE present")
        yield [server.replace("/postgres?", f"/{name}?") for name in ("earlier", "present")]
    finally:
        stop_postgres(folder / "postgres")


def main(before: str) -> None:
    with home() as folder, databases(folder) as (earlier, present):
        checkout = Path(before).resolve()
        with serving(checkout, DATABASE_URL=earlier) as old, serving(ROOT, DATABASE_URL=present) as new:
            sides = [Side(old, "earlier"), Side(new, "present")]
            measured = [_turn(sides, number) for number in range(TURNS)]
    rows = []
    for name, place in (("time", 0), ("processor time", 1)):
        then, now = ([figures[side][place] for figures in measured] for side in (0, 1))
        differences = [one - other for one, other in zip(now, then, strict=True)]
        low, middle, high = _median(differences)
        shown = f"{statistics.median(then):.2f} ms, {statistics.median(now):.2f} ms"
        rows.append((f"action + result, {name}: before, now", shown, ""))
        rows.append(("**difference**", f"**{middle:+.2f} ms** ({low:+.2f} to {high:+.2f})", "0.3 ms"))
    report(f"Appending on PostgreSQL before and now, by turns ({machine()})", rows)


def _turn(sides: list[Side], number: int) -> list[tuple[float, float]]:
    """For each side, the median time and the mean processor time of its appends."""
    figures = [(0.0, 0.0)] * 2
    for place in (0, 1) if number % 2 else (1, 0):
        used = sides[place].used()
        waited = statistics.median(sides[place].append() for _ in range(APPENDS))
        figures[place] = (waited, (sides[place].used() - used) / APPENDS)
    return figures


def _median(values: list[float]) -> tuple[float, float, float]:
    """The median, with its 95 % interval."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], statistics.median(values), medians[1949]


if __name__ == "__main__":
    main(*sys.argv[1:2])
