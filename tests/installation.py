"""A Playhead of its own for a test: a data folder, an empty database, and processes."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

ROOT = Path(__file__).parents[1]


@dataclass
class Installation:
    """Where it lies, and what its processes need to know."""

    home: Path
    environment: dict[str, str]
    running: "list[subprocess.Popen[str]]" = field(default_factory=list)

    def manage(self, *arguments: str) -> str:
        """What a command prints on standard output."""
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
        """What the database answers, without Django: starting it for each look would take a second."""
        url = self.environment["DATABASE_URL"]
        if url:
            with psycopg.connect(url) as connection:
                return connection.execute(statement.encode()).fetchall()
        with closing(sqlite3.connect(self.home / "playhead.sqlite3")) as file:
            return file.execute(statement).fetchall()

    def wait(self, statement: str, seconds: float = 60) -> None:
        """Until a statement finds something."""
        end = time.monotonic() + seconds
        while not self.rows(statement):
            assert time.monotonic() < end, f"nothing after {seconds} s: {statement}"
            time.sleep(0.05)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Python with these arguments; what it prints goes to ``stdout``, its log to ``stderr``."""
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
        """``playhead worker``, once it is ready."""
        process = self.start("manage.py", "worker")
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        return process


def ended(process: "subprocess.Popen[str]") -> str:
    """The log of a process that is asked to end and ends well."""
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return log


@contextmanager
def installation(folder: Path, **settings: str) -> Iterator[Installation]:
    """Without tables: ``manage("migrate")`` makes them. Its processes are killed in the end."""
    folder.mkdir(exist_ok=True)
    with _database(os.environ.get("DATABASE_URL", "")) as url:
        own = {"PLAYHEAD_HOME": str(folder), "DATABASE_URL": url, "NO_PROXY": "127.0.0.1", **settings}
        made = Installation(folder, {**os.environ, **own})
        try:
            yield made
        finally:
            for process in made.running:
                process.kill()
                process.communicate()


@contextmanager
def _database(server: str) -> Iterator[str]:
    """The URL of an empty database; empty for SQLite, which is a file in the data folder."""
    if not server:
        yield ""
        return
    name = f"playhead_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
