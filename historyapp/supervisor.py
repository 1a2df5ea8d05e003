"""The parent process of ``playhead up``: it starts the web process, and a worker when there is work.

It does not import Django, so it needs a quarter of the memory. ``playhead up`` prepares the database and then
becomes this program by exec, with the same process id and terminal but fresh memory.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from historyapp.core.process_memory import unmap_code
from historyapp.full_disk import START_BYTES, full_disk
from historyapp.management.exit_codes import FAILED, INTERRUPTED
from historyapp.running_servers import announced
from historyapp.server import Running, serve

STOP_SECONDS = 12
"""Seconds for a worker to end: two seconds more than its tasks get."""
MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Settings of glibc: two heaps in each process, and a separate mapping for each block of a megabyte or more.

By default, each thread gets a heap and the limit of the blocks grows. The tokenizer's tables are then loaded
into heaps, between other blocks, and their memory cannot be released. With a single heap, threads would wait
for each other.
"""
RESTART_SECONDS = 5
"""Seconds to wait before starting a failed worker again."""


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The supervisor's parameters; JSON values only."""

    ip: str
    port: int
    threads: int
    head_seconds: int
    address: str
    home: str
    sqlite: str
    """The database file; empty with PostgreSQL."""
    welcome: list[str]
    """Lines to print once the server responds."""
    demo_key: str
    """The API key for recording the demo; empty: no demo."""
    worker_id: str
    logging: dict[str, Any]


def become_supervisor(plan: ServerPlan) -> None:
    """Replaces this process with the supervisor.

    The plan contains a key, so it is sent through a pipe: arguments are public. glibc reads its settings at
    the start of a program, so they are set here.
    """
    os.environ.update(MALLOC | os.environ)
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(json.dumps(asdict(plan)).encode())
    os.set_inheritable(read_end, True)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "historyapp.supervisor", str(read_end)])  # noqa: S606


class WorkerProcess:
    """A worker process that is started when there is work. It ends after it has been idle for a while."""

    def __init__(self, worker_id: str) -> None:
        options = ["--on-demand", worker_id, "--parent", str(os.getpid())]
        self._command = [sys.executable, "-m", "historyapp", "worker", *options]
        self._process: subprocess.Popen[bytes] | None = None
        self._not_before = 0.0
        self._lock = threading.Lock()
        self._stopped = False

    def start_on_request(self, requests: int) -> None:
        """Starts the worker for each message in a pipe, unless it is running.

        Args:
            requests: the pipe's read end.
        """
        while os.read(requests, 4096):
            self.ensure()

    def ensure(self) -> None:
        with self._lock:
            if self._stopped or (self._process and self._process.poll() is None):
                return
            if self._process and self._process.returncode and not self._not_before:
                self._not_before = time.monotonic() + RESTART_SECONDS
            if time.monotonic() < self._not_before:
                return  # requests come every second
            self._not_before = 0.0
            self._process = subprocess.Popen(  # noqa: S603
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )
            threading.Thread(target=self._process.wait, daemon=True).start()  # otherwise it stays as a zombie

    def stop(self) -> None:
        """Ends the worker. The next start resumes unfinished work."""
        with self._lock:
            self._stopped = True
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def supervise(plan: ServerPlan) -> None:
    """Serves until a signal arrives.

    Raises:
        SystemExit: when the web process ended without a signal.
    """
    worker = WorkerProcess(plan.worker_id)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    threading.Thread(target=worker.start_on_request, args=(read_end,), daemon=True).start()
    try:
        with announced(Path(plan.home), plan.address):
            serve(
                plan.ip,
                plan.port,
                plan.threads,
                head_seconds=plan.head_seconds,
                logging=plan.logging,
                on_ready=partial(_welcome, plan),
                on_load=partial(_watch_for_work, write_end, plan.worker_id),
            )
    finally:
        worker.stop()
        if plan.sqlite:
            merge_wal(Path(plan.sqlite))


def merge_wal(file: Path) -> None:
    """Merges SQLite's other files into the main file, which users may copy while the server is stopped."""
    wal = Path(f"{file}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    try:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        advice = ""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            needed = full_disk(file.parent, max(size, START_BYTES))
            advice = f" Nothing is lost: the next start reads them. {needed}"
        print(f"The newest changes stay in {wal.name} ({error}).{advice}", file=sys.stderr)  # noqa: T201


def _watch_for_work(requests: int, worker_id: str) -> None:
    """Runs in the web process, because looking for work needs Django.

    Args:
        requests: the write end of the pipe through which a worker is requested.
    """
    from historyapp.clock import watch_for_work
    from historyapp.services.faults import watch_database
    from historyapp.services.wal import watch_wal

    def request_worker() -> None:
        with suppress(BlockingIOError):  # enough requests are waiting
            os.write(requests, b".")

    threading.Thread(target=watch_database, daemon=True).start()
    threading.Thread(target=watch_wal, daemon=True).start()
    threading.Thread(target=watch_for_work, args=(request_worker, worker_id), daemon=True).start()


def _welcome(plan: ServerPlan, running: Running) -> None:
    error = _record_demo(plan, running) if plan.demo_key else ""
    if running():
        print("\n".join([*filter(None, [error]), *plan.welcome]), flush=True)  # noqa: T201 the user reads it
        unmap_code()


def _record_demo(plan: ServerPlan, running: Running) -> str:
    """Records the demo on this server. Returns an error, which does not stop the server, or an empty text."""
    text = "Loading the demo: a small agent works in a temporary folder and records what it does."
    print(text, flush=True)  # noqa: T201 the user reads it
    demo = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "historyapp.demo", plan.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert demo.stdin
    assert demo.stdout
    demo.stdin.write(plan.demo_key)
    demo.stdin.close()
    while demo.poll() is None:
        if not running():
            demo.kill()
        time.sleep(0.05)
    return demo.stdout.read().strip()


def main() -> None:
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        plan = ServerPlan(**json.loads(pipe.read()))
    try:
        supervise(plan)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
