"""Finds tests that need not run on PostgreSQL, because others issue the same statements there.

``python -m tests.statements tests/models …`` runs these tests on PostgreSQL and writes ``statements.txt``. It
lists test functions whose statements are all issued by functions that are not listed, and those that take
long for the few statements that they alone issue. A function that issues statements in several threads, or
starts processes, is never listed: it tests locks, whatever its statements are. Neither is one of the tables
and their migrations, or one that does not run on SQLite. New functions run.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db.backends.utils import CursorWrapper

FEWEST = 12
"""Statements a second. A function that adds fewer is listed: the last 5 % cost a third of the time."""
TABLES = "tests/models/"
REPEATS = Path(__file__).with_suffix(".txt")
_SAME: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"%s(, ?%s)+"), "%s…"),
    (re.compile(r"\(%s…?\)(, ?\(%s…?\))+"), "(%s…)…"),
    (re.compile(r'"?s\d+_x\d+"?'), "savepoint"),
    (re.compile(r"\b\d+\b"), "0"),
    (re.compile(r"'[0-9a-f-]{20,}'"), "'id'"),
)
"""Statements that differ only in the number of values, or in numbers and ids, count as the same."""


def function_of(item: pytest.Item) -> str:
    """The test's name without its parameters."""
    return item.nodeid.partition("[")[0]


@dataclass
class _Function:
    seconds: float = 0.0
    required: bool = False
    """Whether it tests what statements do not show."""
    statements: set[str] = field(default_factory=set)


class Recorder:
    """A pytest plugin that records the statements of each test function."""

    def __init__(self) -> None:
        self.functions: dict[str, _Function] = {}
        self._statements: set[str] = set()
        self._threads: set[int] = set()
        self._processes = 0

    def pytest_sessionstart(self) -> None:
        from tests.environment import postgres_process  # it imports this module

        self._server = postgres_process()
        sys.addaudithook(self._count_processes)
        for method in ("execute", "executemany"):
            self._record(method, getattr(CursorWrapper, method))

    def _count_processes(self, event: str, _: tuple[Any, ...]) -> None:
        self._processes += event in ("subprocess.Popen", "os.fork")

    def _record(self, method: str, execute: Callable[..., Any]) -> None:
        def record(cursor: CursorWrapper, sql: Any, *values: Any) -> Any:
            self._statements.add(str(sql))
            self._threads.add(threading.get_ident())
            return execute(cursor, sql, *values)

        pytest.MonkeyPatch().setattr(CursorWrapper, method, record)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._statements, self._threads, self._processes = set(), set(), 0
        start = self._used_seconds()
        result = yield
        function = self.functions.setdefault(function_of(item), _Function())
        function.seconds += self._used_seconds() - start
        function.statements |= {_normalised(statement) for statement in self._statements}
        required = len(self._threads) > 1 or self._processes > 0 or _is_skipped_on_sqlite(item)
        function.required |= required
        return result

    def _used_seconds(self) -> float:
        """The processor time of this process, of the server, and of the children of both that have ended."""
        used: float = sum(os.times()[:4]) + sum(self._server.cpu_times()[:4])
        for process in self._server.children():
            with suppress(psutil.NoSuchProcess):
                used += sum(process.cpu_times()[:2])
        return used

    def repeats(self) -> set[str]:
        """The functions whose statements others issue in the least time, chosen greedily, and slow ones."""
        others = {name for name, function in self.functions.items() if not function.required}
        missing = set[str]().union(*(self.functions[name].statements for name in others))
        for name in self.functions.keys() - others:
            missing -= self.functions[name].statements

        def profit(name: str) -> float:
            function = self.functions[name]
            return len(missing & function.statements) / (function.seconds + 0.01)

        slow = set()
        while missing:
            best = max(sorted(others), key=profit)
            if profit(best) < FEWEST and not best.startswith(TABLES):
                slow.add(best)
            others.remove(best)
            missing -= self.functions[best].statements
        return others | slow

    def share_without(self, listed: set[str]) -> str:
        """How many of the statements the other functions issue."""
        every, remaining = set[str](), set[str]()
        for name, function in self.functions.items():
            every |= function.statements
            remaining |= set[str]() if name in listed else function.statements
        return f"{len(remaining) / len(every):.1%} of {len(every):,} statements remain"


def _is_skipped_on_sqlite(item: pytest.Item) -> bool:
    marks = item.iter_markers("skipif")
    return any(mark.kwargs.get("reason", "").startswith("SQLite ") for mark in marks)


def _normalised(statement: str) -> str:
    for pattern, text in _SAME:
        statement = pattern.sub(text, statement)
    return statement


def main(paths: list[str]) -> None:
    recorder = Recorder()
    options = ["-q", "--database", "postgres", "-m", "not slow and not thorough"]
    if code := pytest.main([*options, *paths], plugins=[recorder]):
        sys.exit(int(code))
    repeats = recorder.repeats()
    REPEATS.write_text("".join(f"{name}\n" for name in sorted(repeats)))
    print(recorder.share_without(repeats))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
