"""Several worker processes on one database without Redis: each message once, and nothing lost by a kill."""

import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from subprocess import Popen
from threading import Timer

import psutil
import pytest

from bench.incoming import append_meanwhile
from bench.machinery import KEY
from tests.forking import forked_playhead
from tests.installation import Installation, ended, installation, migrated

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.usefixtures("lighter")]

_WORKER = """
import os, signal, time
from historyapp.celery import app
from historyapp.worker import run_worker, stop_worker
@app.task(name="count")
def count(number):
    os.write(1, f"{number}\\n".encode())
    time.sleep(0.1)
signal.signal(signal.SIGTERM, lambda *_: stop_worker())
print("ready", flush=True)
run_worker()
"""
_SENDER = """
import json
from historyapp.celery import app
from historyapp.services.queue import put, take
taken = None
while taken is None:  # a worker may be faster
    app.send_task("count", [1])
    taken = take("playhead")
whole = json.loads(taken)
for change in (
    {"headers": None}, {"headers": []}, {"headers": {"task": "count"}}, {"content-type": "no/such"},
    {"content-encoding": "no such"}, {"body": "%%%"}, {"body": ""}, {"body": "W10="}, {"properties": {}},
):
    put("playhead", json.dumps({**whole, **change}))
put("playhead", '{"body": "half')
app.send_task("nobody_knows_this", [1])
app.send_task("count", [])
for number in range(100, 200):
    app.send_task("count", [number], countdown=0.05 if number % 10 == 0 else None)
"""
_RUNS = """
from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.compression.start import RunRequest, start_run
from historyapp.services.sessions import create_session
from historyapp.enqueue import wake
from tests.services.drafts import act, ok
project = Project.objects.create(name="ours")
for _ in range(4):
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(40) for draft in (act("read", path="a.py"), ok())])
    run = start_run(project, session.pk, RunRequest("simple_extract", from_step=1, to_step=40)).run
    if with_messages:
        wake(run.pk)
"""

_END_ALL_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM historyapp_queuedmessage WHERE problem = '')"
_WANTED = "FROM historyapp_compressionrun WHERE NOT automatic"
_DONE = f"SELECT 1 WHERE (SELECT COUNT(*) {_WANTED} AND state = 'succeeded') = 4"


@dataclass
class Forked(Installation):
    """Its commands are children of one process, which has loaded all modules."""

    program: str = field(kw_only=True)
    loaded: psutil.Process = field(kw_only=True)

    def start(self, *arguments: str) -> "Popen[str]":
        command = arguments[1:] if arguments[0] == "manage.py" else ("shell", "--no-imports", *arguments)
        process = Popen([self.program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def manage(self, *arguments: str) -> str:
        printed, log = self.start("manage.py", *arguments).communicate(timeout=120)
        assert log == ""
        return printed

    def commands(self) -> list[psutil.Process]:
        """The processes of commands that run, oldest first."""
        running = [one for one in self.loaded.children() if one.status() != psutil.STATUS_ZOMBIE]
        return sorted(running, key=psutil.Process.create_time)

    def kill_all(self) -> None:
        for process in self.commands():
            process.kill()
        for program in self.running:
            program.communicate(timeout=60)
        self.running.clear()


@pytest.fixture(scope="module")
def forked(lighter: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    folder = tmp_path_factory.mktemp("workers")
    home = folder / "home"
    quick = {"PLAYHEAD_CLAIM_SECONDS": "2", "PLAYHEAD_SWEEP_SECONDS": "1", "PLAYHEAD_API_KEY": KEY}
    with (
        installation(home, migrated=False, **quick) as made,
        forked_playhead(folder / "bin", made.environment) as pid,
    ):
        program = str(folder / "bin" / "playhead")
        yield Forked(made.home, made.environment, program=program, loaded=psutil.Process(pid))


@pytest.fixture
def without_tables(forked: Forked) -> Iterator[Forked]:
    yield forked
    forked.kill_all()
    if forked.environment["DATABASE_URL"]:
        forked.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for file in forked.home.glob("playhead.sqlite3*"):
        file.unlink()


@pytest.fixture
def ours(without_tables: Forked) -> Forked:
    _add_tables(without_tables)
    return without_tables


def _add_tables(ours: Forked) -> None:
    if ours.environment["DATABASE_URL"]:
        ours.manage("migrate", "-v0", "--skip-checks")
        return
    file = f"{(migrated() / 'playhead.sqlite3').as_uri()}?immutable=1"
    with closing(sqlite3.connect(file, uri=True)) as source, closing(_sqlite(ours)) as target:
        source.backup(target)


def _add_runs(ours: Forked, *, with_messages: bool = True) -> None:
    """Adds four waiting runs, and the messages that start them."""
    ours.manage("shell", "--no-imports", "-c", f"with_messages = {with_messages}{_RUNS}")


def _sqlite(ours: Installation) -> sqlite3.Connection:
    return sqlite3.connect(ours.home / "playhead.sqlite3", isolation_level=None)


def test_each_message_reaches_one_of_several_workers_and_none_stops_a_worker(ours: Installation) -> None:
    workers = [_counting(ours) for _ in range(2)]
    ours.wait("SELECT 1 WHERE (SELECT COUNT(*) FROM historyapp_worker) = 2")
    assert ours.start("-c", _SENDER).communicate(timeout=60) == ("", "")
    ours.wait(_EMPTY)
    results = [_stopped(worker) for worker in workers]
    printed = [[int(line) for line in lines if int(line) >= 100] for lines, _ in results]
    assert Counter(number for numbers in printed for number in numbers) == Counter(range(100, 200))
    assert all(printed)
    log = "".join(log for _, log in results)
    assert "The worker has stopped" not in log
    assert "Traceback" not in log
    assert "cannot be read and is set aside" in log
    assert "unregistered task" in log


def test_a_killed_worker_that_holds_messages_loses_no_work(ours: Forked) -> None:
    _add_runs(ours)
    first, second = ours.worker(), ours.worker()
    ours.wait("SELECT 1 FROM historyapp_summary")
    ours.commands()[0].kill()
    assert first.wait(60) == 1
    ours.wait(_DONE)
    assert ours.rows(f"SELECT state, done {_WANTED}") == [("succeeded", 40)] * 4
    assert ended(second) == ""
    database = {"playhead.sqlite3", "playhead.sqlite3-wal", "playhead.sqlite3-shm"}
    assert _files(ours) <= database | {"secret_key", "clock.json"}


def test_a_worker_waits_for_its_tables_and_an_unreachable_database_and_needs_no_messages(
    without_tables: Forked,
) -> None:
    """A worker may take messages and die before it begins a run: the sweep finds what is to be done."""
    ours = without_tables
    worker = ours.worker()
    assert worker.stderr is not None
    end = Timer(60, ours.kill_all)  # closes its log
    end.start()
    assert any("run `playhead migrate`" in line for line in worker.stderr)
    end.cancel()
    assert worker.poll() is None
    _add_tables(ours)
    _add_runs(ours, with_messages=False)
    ours.wait("SELECT 1 FROM historyapp_summary")
    _take_away(ours, 3)
    ours.wait(_DONE)
    assert worker.poll() is None
    ended(worker)


def _take_away(ours: Installation, seconds: float) -> None:
    """Ends every connection to PostgreSQL for some seconds, or holds the write lock of SQLite."""
    if not ours.environment["DATABASE_URL"]:
        with closing(_sqlite(ours)) as locking:
            locking.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ours.rows(_END_ALL_OTHERS)
        time.sleep(0.05)


def test_a_running_worker_keeps_up_with_steps_that_are_appended_fast(
    ours: Forked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short version of ``bench/incoming.py``."""
    monkeypatch.setattr("bench.incoming.installation", lambda *_, **__: nullcontext(ours))
    seen = append_meanwhile(ours.home.parent, 60)
    assert seen.log == ""
    assert (seen.unfinished, seen.uncompressed, seen.messages) == (0, 0, 0)
    assert seen.runs >= 1
    assert seen.files <= {"secret_key", "clock.json", "playhead.sqlite3"}


def _counting(ours: Installation) -> "Popen[str]":
    worker = ours.start("-c", _WORKER)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def _stopped(worker: "Popen[str]") -> tuple[list[str], str]:
    """Stops a worker. Returns what it printed, split at blanks, and its log."""
    worker.terminate()
    printed, log = worker.communicate(timeout=120)
    assert worker.returncode == 0, log
    return printed.split(), log


def _files(ours: Installation) -> set[str]:
    return {str(path.relative_to(ours.home)) for path in ours.home.rglob("*")}
