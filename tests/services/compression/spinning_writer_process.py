"""A writer process that takes long for some steps, for tests of its limits. It loads no spaCy.

It estimates tokens, because each summary that takes too long ends it, and another one starts.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from historyapp.child import limit_processor_time
from historyapp.core.strategies import STRATEGIES, writing
from historyapp.core.strategies.base import Material, Resources, SummaryDraft
from historyapp.services.summary_writers import process

SPIN = "spin.py"
"""A path in a step's call. Its summary is never written: the loop runs in C and looks for no signal."""

ENDLESS = "endless.py"
"""Its summary is never written, either, but the loop mostly sleeps and has no limit of processor time."""
BUSY = "busy.py"
"""Writing its summary takes this many seconds of processor time."""
BUSY_SECONDS = 0.2


class _NoLanguage:
    def sentences(self, text: str) -> list[str]:
        return [text]

    def names(self, text: str) -> list[str]:
        return []


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "light" / "tokens"))
    writing.load_language = process.load_language = lambda name: (_NoLanguage(), "")  # type: ignore
    process.BASE_SECONDS = 0.2
    for name, strategy in STRATEGIES.items():
        STRATEGIES[name] = replace(strategy, write=_spinning(strategy.write))
    _fork_for_each(int(sys.argv[1]))
    process.main()


def _fork_for_each(commands: int) -> None:
    """Returns in each forked process, which then has the arguments that ``Child`` would give it.

    Args:
        commands: the file descriptor of the socket on which ``forked_writers.py`` asks.
    """
    asking, parent, ended = socket.socket(fileno=commands), str(os.getpid()), set[int]()
    while True:
        message, files, _, _ = socket.recv_fds(asking, 100, 1)
        if not message:
            os._exit(0)
        operation, pid = message.split()[0], int(message.split()[1])
        answer = 0
        if operation == b"fork":
            answer = os.fork()
            if answer == 0:
                asking.close()
                sys.argv[1:] = [str(files[0]), parent]
                return
            os.close(files[0])
        elif operation == b"kill" and pid not in ended:
            os.kill(pid, signal.SIGKILL)
        elif operation == b"wait" and pid not in ended:
            answer = os.waitpid(pid, 0)[1]
            ended.add(pid)
        asking.send(str(answer).encode())


def _spinning(
    write: Callable[[Material, Resources], SummaryDraft],
) -> Callable[[Material, Resources], SummaryDraft]:
    def write_or_spin(material: Material, resources: Resources) -> SummaryDraft:
        called = str([episode.output for episode in material.episodes])
        if SPIN in called:
            any(repeat(False))
        if ENDLESS in called or BUSY in called:
            limit_processor_time(0)
            _work(BUSY_SECONDS)
        while ENDLESS in called:
            time.sleep(0.05)
            _work(0.01)  # however late the parent looks at the time
        return write(material, resources)

    return write_or_spin


def _work(seconds: float) -> None:
    """Takes processor time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


if __name__ == "__main__":
    main()
