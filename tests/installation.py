"""A separate Playhead for a test: a data folder, an empty database, and processes."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import django
import psycopg
from psycopg.sql import SQL, Identifier

ROOT = Path(__file__).parents[1]
LIGHT = ROOT / "tests" / "light"


@dataclass
class Installation:
    """The data folder, and the environment of the processes."""

    home: Path
    environment: dict[str, str]
    running: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def manage(self, *arguments: str) -> str:
        """Runs a command and returns its standard output."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        return done.stdout

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query, without Django, whose start would take a second each time."""
        url = self.environment["DATABASE_URL"]
        if url:
            with psycopg.connect(url) as connection:
                return connection.execute(statement.encode()).fetchall()
        with closing(sqlite3.connect(self.home / "playhead.sqlite3")) as file:
            return file.execute(statement).fetchall()

    def execute(self, statement: str) -> None:
        """Carries out a statement that changes rows."""
        url = self.environment["DATABASE_URL"]
        if url:
            with psycopg.connect(url) as connection:
                connection.execute(statement.encode())
            return
        with closing(sqlite3.connect(self.home / "playhead.sqlite3")) as file, file:
            file.execute(statement)

    def wait(self, statement: str, seconds: float = 60) -> None:
        """Waits until a query returns rows."""
        end = time.monotonic() + seconds
        while not self.rows(statement):
            assert time.monotonic() < end, f"nothing after {seconds} s: {statement}"
            time.sleep(0.05)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts Python with these arguments. ``stdout`` has its output and ``stderr`` its log."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def worker(self) -> "subprocess.Popen[str]":
        """Starts ``playhead worker`` and waits until it is ready."""
        process = self.start("manage.py", "worker")
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        return process


def ended(process: "subprocess.Popen[str]") -> str:
    """Terminates a process, checks that its exit code is 0, and returns its log.

    Warnings of write transactions that took longer than a second are left out: a busy machine has some.
    """
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=120)
    assert process.returncode == 0
    return "".join(line for line in log.splitlines(keepends=True) if "A write transaction took" not in line)


def copy_migrated(folder: Path) -> Path:
    """A new data folder whose SQLite database has its tables."""
    return Path(shutil.copytree(migrated(), folder))


@cache
def migrated() -> Path:
    """A data folder whose SQLite database has its tables. No test may change it.

    Making the tables takes seconds. It is done once for each state of the code. ``PLAYHEAD_MIGRATED`` names
    the folder of a copy of this project, which gets only newer migrations.
    """
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "historyapp").rglob("*.py")))
    folder = ROOT / ".pytest_cache" / "migrated"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / sha256(code + django.__version__.encode()).hexdigest()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in folder.glob("*/"):
                shutil.rmtree(old)
            home, older = folder / "home", older_tables_of(made)
            if start := os.environ.get("PLAYHEAD_MIGRATED"):
                shutil.copytree(start, home)
            environment = {**os.environ, "PLAYHEAD_HOME": str(home), "DATABASE_URL": ""}
            command = [sys.executable, "-m", "tests.older_tables", str(older)]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            home.rename(made)
    return made


def older_tables_of(made: Path) -> Path:
    """The folder that has a SQLite database for each migration of ``tests.older_tables``. They have no rows.

    Args:
        made: the folder that :func:`migrated` has returned.
    """
    return made.with_suffix(".older")


@contextmanager
def light_processes(*, estimating: bool = False) -> Iterator[None]:
    """The processes that start meanwhile have ``tests/light/spacy.py`` instead of spaCy.

    If ``estimating``, they also have ``tests/light/tokens/toktok`` instead of the tokenizer.
    """
    before = os.environ.get("PYTHONPATH")
    folders = [LIGHT / "tokens", LIGHT] if estimating else [LIGHT]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *filter(None, [before])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def installation(folder: Path, *, migrated: bool = False, **settings: str) -> Iterator[Installation]:
    """Has no tables unless it is ``migrated``. Processes that still run at the end are killed."""
    if migrated and not os.environ.get("DATABASE_URL"):
        copy_migrated(folder)
    folder.mkdir(exist_ok=True)
    with _database(os.environ.get("DATABASE_URL", "")) as url:
        own = {"PLAYHEAD_HOME": str(folder), "DATABASE_URL": url, "NO_PROXY": "127.0.0.1", **settings}
        made = Installation(folder, {**os.environ, **own})
        if migrated and url:
            made.manage("migrate", "-v0", "--skip-checks")
        try:
            yield made
        finally:
            for process in made.running:
                process.kill()
                process.communicate()


@contextmanager
def _database(server: str) -> Iterator[str]:
    """The URL of an empty database, or an empty text for SQLite, whose file is in the data folder."""
    if not server:
        yield ""
        return
    name = f"playhead_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
