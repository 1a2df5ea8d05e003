"""A real ``playhead up`` that can be killed and started again on the same port and data."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.installation import copy_migrated

ROOT = Path(__file__).parents[2]
KEY = "ph_a_key_of_these_tests_0123456789"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """Runs while it is entered. A kill is ``kill -9`` of all its processes at once."""

    def __init__(self, home: Path) -> None:
        copy_migrated(home)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Returns when it is ready."""
        variables = {"PLAYHEAD_HOME": str(self._home), "PLAYHEAD_API_KEY": KEY, "DATABASE_URL": ""}
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-demo", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout
        printed = ""
        for line in self._process.stdout:
            printed += line
            if "Playhead ready at" in line:
                return
        raise AssertionError(f"The server did not start: {printed}")

    def kill(self) -> None:
        assert self._process
        parent = psutil.Process(self._process.pid)
        family = [parent, *parent.children(recursive=True)]
        for process in family:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs(family, timeout=20)
        self._process.communicate(timeout=20)
