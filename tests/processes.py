"""A pytest plugin that runs tests in several processes and collects them once: ``pytest --processes 4 2``.

One process collects the tests and then forks the others. Each process of pytest-xdist imports and collects
all tests again, which took a fifteenth of the processor time of a whole run.

A process runs one file after another. The first number is how many processes take files from the start of
the list, the second is how many take files from its end. If the command line names tests that wait first and
tests that compute last, both kinds run side by side until all are done; the former have priority.

``--together tests/browser`` gives all files of a folder to the process that takes the first or last of them.
"""

import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from mmap import mmap
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureManager

STOP_SECONDS = 20
"""What fixtures may take to end when the tests are stopped early."""
_SEND_SECONDS = 0.5
"""How long reports of passed tests wait for others: each message interrupts a core."""
_SHARED_BYTES, _LONGEST_ID = 2**20, 4000
_FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes",
        nargs=2,
        type=int,
        metavar=("FROM_START", "FROM_END"),
        help="how many processes take files from the start of the list, and how many from its end",
    )
    parser.addoption(
        "--together",
        action="append",
        default=[],
        metavar="FOLDER",
        help="one process runs all files of this folder: they share something that takes long to start",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    numbers = session.config.getoption("processes")
    if not numbers or session.testsfailed or session.config.option.collectonly:
        return None
    _Pool(session).run(*numbers)
    return True


@dataclass
class _Worker:
    process: ForkProcess
    takes_first: bool
    unsent: "_Unsent"


class _Pool:
    """The processes that run tests, seen from the one that collected them."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        together = {session.config.rootpath / folder for folder in session.config.getoption("together")}
        groups = groupby(session.items, key=lambda item: _taken_with(item.path, together))
        self._files = [list(items) for _, items in groups]
        """The tests that a process takes at a time: those of a file, or of a folder of ``--together``."""
        self._untaken = deque(range(len(self._files)))
        self._workers: dict[Connection, _Worker] = {}

    def run(self, from_start: int, from_end: int) -> None:
        """Runs the tests until none is left.

        Raises:
            session.Failed: as many tests have failed as ``--maxfail`` allows.
            session.Interrupted: a plugin stopped the session.
        """
        _temporary_folders(self._session.config).getbasetemp()  # those of the workers are in it
        try:
            for number in range(from_start + from_end):
                self._fork(f"gw{number}", takes_first=number < from_start)
            while self._workers:
                for connection in wait(list(self._workers)):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers.values():
                os.kill(worker.process.pid or 0, signal.SIGINT)
                worker.process.join(STOP_SECONDS)
                worker.process.kill()  # a test or a fixture may have caught the signal
                worker.process.join()

    def _fork(self, name: str, *, takes_first: bool) -> None:
        ours, theirs = _FORK.Pipe()
        unneeded = [ours, *self._workers]
        unsent = _Unsent()
        reporter = _Reporter(self._session.config, theirs, unsent)
        process = _FORK.Process(
            target=_run_files, args=(self._session, self._files, name, reporter, unneeded)
        )
        process.start()
        if not takes_first:
            os.setpriority(os.PRIO_PROCESS, process.pid or 0, 5)
        theirs.close()
        self._workers[ours] = _Worker(process, takes_first, unsent)

    def _receive(self, connection: Connection) -> None:
        """Gives a worker the file that it asks for, or passes on what it reports."""
        worker, hook = self._workers[connection], self._session.config.hook
        try:
            kind, value = connection.recv()
        except EOFError:
            self._remove_worker(connection)
            return
        match kind:
            case "next":
                take = self._untaken.popleft if worker.takes_first else self._untaken.pop
                connection.send(take() if self._untaken else None)
            case "reports":
                self._report(value)
            case "warning":
                hook.pytest_warning_recorded.call_historic(kwargs=value)

    def _report(self, reports: Iterable[Any]) -> None:
        config = self._session.config
        for data in reports:
            report = config.hook.pytest_report_from_serializable(config=config, data=data)
            config.hook.pytest_runtest_logreport(report=report)

    def _remove_worker(self, connection: Connection) -> None:
        """Removes a worker that has ended. If it crashed, its newest test has failed."""
        worker = self._workers.pop(connection)
        worker.process.join()
        if worker.process.exitcode:
            test, reports = worker.unsent.read()
            self._report(reports)
            crash = pytest.TestReport(
                nodeid=test,
                location=(test.partition("::")[0], None, test),
                keywords={},
                outcome="failed",
                longrepr=f"The process ended with exit code {worker.process.exitcode} during this test.",
                when="call",
            )
            self._session.config.hook.pytest_runtest_logreport(report=crash)


class _Unsent:
    """What a worker has not sent yet, in memory that its pool can read if it crashes.

    This is the node id of the newest test that it started, and reports of passed tests.
    """

    def __init__(self) -> None:
        self._memory = mmap(-1, _SHARED_BYTES)
        self.clear()

    def start(self, test: str) -> None:
        self._memory[:_LONGEST_ID] = test.encode()[:_LONGEST_ID].ljust(_LONGEST_ID, b"\0")

    def add(self, report: Any) -> bool:
        """Returns whether there is space for it."""
        data = pickle.dumps(report)
        if self._memory.tell() + len(data) >= _SHARED_BYTES:
            return False
        self._memory.write(data + b"\0")  # no pickled object begins with zero
        self._memory.seek(-1, os.SEEK_CUR)
        return True

    def clear(self) -> None:
        self._memory.seek(_LONGEST_ID)
        self._memory[_LONGEST_ID] = 0

    def read(self) -> tuple[str, list[Any]]:
        """Returns the node id and the reports."""
        self._memory.seek(_LONGEST_ID)
        reports = list[Any]()
        while self._memory[self._memory.tell()]:
            reports.append(pickle.load(self._memory))
        return self._memory[:_LONGEST_ID].rstrip(b"\0").decode(errors="replace"), reports


class _Reporter:
    """A plugin of a worker: it sends what the terminal and the plugins of the collecting process show."""

    def __init__(self, config: pytest.Config, pool: Connection, unsent: _Unsent) -> None:
        self._config = config
        self._pool = pool
        self._unsent = unsent
        self._reports: list[Any] = []
        self._sent = time.monotonic()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._unsent.start(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)
        waited = time.monotonic() - self._sent
        if not report.passed or not self._unsent.add(data) or waited > _SEND_SECONDS:
            self.send_reports()

    def send_reports(self) -> None:
        self._pool.send(("reports", self._reports))
        self._unsent.clear()
        self._reports, self._sent = [], time.monotonic()

    def next_file(self) -> int | None:
        """Asks for the number of a file that no worker has taken; None if all are taken."""
        self.send_reports()
        self._pool.send(("next", None))
        number: int | None = self._pool.recv()
        return number

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        warning = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._pool.send(("warning", warning))


def _taken_with(file: Path, together: set[Path]) -> Path:
    """The folder whose files one process runs, if the file is in one, or else the file."""
    return next((folder for folder in file.parents if folder in together), file)


def _run_files(
    session: pytest.Session,
    files: list[list[pytest.Item]],
    name: str,
    reporter: _Reporter,
    unneeded: Iterable[Connection],
) -> None:
    """Runs files that the pool gives, until it gives no more."""
    for connection in unneeded:
        connection.close()
    _become_a_worker(session.config, name, reporter)
    # A shell lets the processes that it starts in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = session.config.hook.pytest_runtest_protocol
    number = reporter.next_file()
    try:
        while number is not None:
            for item, following in pairwise(files[number]):
                run(item=item, nextitem=following)
            # What a file's last test tears down depends on the test after it.
            last, number = files[number][-1], reporter.next_file()
            run(item=last, nextitem=None if number is None else files[number][0])
        reporter.send_reports()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        vars(session)["_setupstate"].teardown_exact(None)  # ends what fixtures have started


# CPython keeps the frames of Python functions in chunks of 16 KB and unmaps a chunk when its first frame
# returns. Deep calls of tests cross the border of a chunk thousands of times a second, and each unmapping
# interrupts the other core. The frame of this function makes its chunk so large that all further ones fit.
_run_files.__code__ = _run_files.__code__.replace(co_stacksize=70_000)


def _become_a_worker(config: pytest.Config, name: str, reporter: _Reporter) -> None:
    """Gives a forked process its own reporter, captured output, temporary folder and database."""
    vars(config)["workerinput"] = {"workerid": name}  # pytest-django adds it to the database's name
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(reporter)
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert isinstance(capture, CaptureManager)
    capture.stop_global_capturing()  # all workers would write into one file
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folders = _temporary_folders(config)
    folders._basetemp = folders.getbasetemp() / name
    folders._basetemp.mkdir()


def _temporary_folders(config: pytest.Config) -> Any:
    """What makes the ``tmp_path`` of tests."""
    return vars(config)["_tmp_path_factory"]
