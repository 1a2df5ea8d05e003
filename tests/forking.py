"""A program ``playhead`` that starts quickly: a process that has loaded all modules forks for each command.

To load Playhead takes 0.5 to 1.5 seconds of processor time, for each command of a page of the documentation.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PROGRAM = """#!{python} -ISs
import os, signal, socket, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, ["\\0".join([os.getcwd(), *sys.argv]).encode()], [0, 1, 2])
    code = server.recv(1)
sys.exit(code[0] if code else "playhead: the process that ran the command has crashed")
"""


@contextmanager
def forked_playhead(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Saves the program in a folder. All its commands run in this environment."""
    folder.mkdir()
    address, program = str(folder / "socket"), folder / "playhead"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        loaded = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(listening.fileno())],
            cwd=ROOT,
            env=environment,
            pass_fds=[listening.fileno()],
        )
    program.write_text(_PROGRAM.format(python=sys.executable, address=address))
    program.chmod(0o700)
    try:
        yield
    finally:
        loaded.terminate()
        loaded.wait(timeout=60)


def _fork_for_each(listening: socket.socket) -> None:
    from historyapp import wsgi  # noqa: F401 it is what takes long
    from historyapp.core.vocabularies import tokenizer
    from historyapp.urls import urlpatterns  # noqa: F401

    tokenizer("o200k_base")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: their programs get the exit codes
    while True:
        program, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            program.sendall(bytes([_run(program)]))
            os._exit(0)
        program.close()


def _run(program: socket.socket) -> int:
    """Runs a command with the arguments and the open files of a program, and returns its exit code."""
    from historyapp.__main__ import main

    message, files, _, _ = socket.recv_fds(program, 65_536, 3)
    folder, *sys.argv = message.decode().split("\0")
    os.chdir(folder)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1)
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    if isinstance(code, str):
        print(code, file=sys.stderr)  # noqa: T201 as Python does when it ends
        code = 1
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    return int(str(code or 0))


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "historyapp.settings"
    _fork_for_each(socket.socket(fileno=int(sys.argv[1])))
