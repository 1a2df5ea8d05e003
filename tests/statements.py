"""Finds tests that need not run on PostgreSQL, because others issue the same statements there.

``python -m tests.statements tests/models …`` runs these tests on PostgreSQL and writes ``statements.txt``. It
lists test functions whose statements are all issued by functions that are not listed, and those that take
long for the few statements that they alone issue. A function that starts threads which issue statements, or
starts processes, is never listed: it tests locks, whatever its statements are. Threads that the product
starts do not count. Neither is one of migrations, of the plans of statements, one that does not run on
SQLite, or one in ``KEPT``. New functions run.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest
from django.db.backends.utils import CursorWrapper

FEWEST = 12
"""Statements a second. A function that adds fewer is listed: the last 5 % cost a third of the time."""
ROOT = Path(__file__).parents[1]
KEPT = (
    "tests/models/test_append_only.py",
    "tests/models/test_long_entries.py::test_no_cursor_outlives_its_transaction",
    "tests/models/test_partitions.py",
    "tests/models/test_step_filters.py::test_a_filter_gives_the_steps_of_the_filtered_list",
    "tests/models/test_takes.py::test_no_take_is_missed_before_a_step",
)
"""Triggers, cursors, partitions, and SQL that random histories check."""
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
        self._threads: set[threading.Thread] = set()
        """Those that issued statements."""
        self._started: set[threading.Thread] = set()
        """Those that the product did not start."""
        self._processes = 0

    def pytest_sessionstart(self) -> None:
        from tests.environment import postgres_process  # it imports this module

        self._server = postgres_process()
        sys.addaudithook(self._count_processes)
        for method in ("execute", "executemany"):
            self._record(method, getattr(CursorWrapper, method))
        usual = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            usual(thread)
            if not _is_called_by_the_product():
                self._started.add(thread)

        pytest.MonkeyPatch().setattr(threading.Thread, "start", start)

    def _count_processes(self, event: str, _: tuple[Any, ...]) -> None:
        self._processes += event in ("subprocess.Popen", "os.fork")

    def _record(self, method: str, execute: Callable[..., Any]) -> None:
        def record(cursor: CursorWrapper, sql: Any, *values: Any) -> Any:
            self._statements.add(str(sql))
            self._threads.add(threading.current_thread())
            return execute(cursor, sql, *values)

        pytest.MonkeyPatch().setattr(CursorWrapper, method, record)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._statements, self._threads, self._started, self._processes = set(), set(), set(), 0
        start = self._used_seconds()
        result = yield
        function = self.functions.setdefault(function_of(item), _Function())
        function.seconds += self._used_seconds() - start
        function.statements |= {_normalised(statement) for statement in self._statements}
        has_threads = not self._threads.isdisjoint(self._started)
        required = has_threads or self._processes > 0 or _must_run_on_postgresql(item)
        required |= any(statement.startswith("EXPLAIN") for statement in self._statements)
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
            if profit(best) < FEWEST:
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


def _must_run_on_postgresql(item: pytest.Item) -> bool:
    """Whether it tests what PostgreSQL does in its own way, or migrations, or does not run on SQLite."""
    if item.nodeid.startswith(KEPT) or "older" in getattr(item, "fixturenames", ()):
        return True
    marks = item.iter_markers("skipif")
    return any(mark.kwargs.get("reason", "").startswith("SQLite ") for mark in marks)


def _is_called_by_the_product() -> bool:
    """Whether the newest frame of this project belongs to the product, not to the tests."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path != Path(__file__) and ROOT in path.parents and ".venv" not in path.parts:
            return path.relative_to(ROOT).parts[0] != "tests"
        frame = frame.f_back
    return False


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
