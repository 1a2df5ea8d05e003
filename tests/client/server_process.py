"""A real ``playhead up`` that can be killed and started again on the same port and data."""

import os
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.forking import forked_playhead
from tests.installation import copy_migrated

ROOT = Path(__file__).parents[2]
KEY = "ph_a_key_of_these_tests_0123456789"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """Runs while it is entered. A kill is ``kill -9`` of all its processes at once.

    Each start is a child of one process, which has loaded all modules.
    """

    def __init__(self, home: Path) -> None:
        copy_migrated(home)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._home = home
        self._program = home.parent / "bin" / "playhead"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        variables = {"PLAYHEAD_HOME": str(self._home), "PLAYHEAD_API_KEY": KEY, "DATABASE_URL": ""}
        loaded = forked_playhead(self._program.parent, {**os.environ, **variables})
        self._loaded = psutil.Process(self._stack.enter_context(loaded))
        self._stack.callback(self.kill)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self) -> None:
        """Returns when it is ready."""
        self._process = subprocess.Popen(
            [str(self._program), "up", "--no-demo", "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout
        printed = ""
        for line in self._process.stdout:
            printed += line
            if "Playhead ready at" in line:
                return
        raise AssertionError(f"The server did not start: {printed}")

    def kill(self) -> None:
        # They are suspended first, so that none starts another one, which would go on for some seconds.
        suspended = set[psutil.Process]()
        while started := set(self._loaded.children(recursive=True)) - suspended:
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
            suspended |= started
        for process in suspended:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.communicate(timeout=20)
