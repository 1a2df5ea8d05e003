"""A program ``playhead`` that starts quickly: a process that has loaded all modules forks for each command.

To load Playhead takes 0.5 to 1.5 seconds of processor time, for each command of a page of the documentation.
The web process of ``playhead up`` is a fork too, of its supervisor, and so has all modules from its start.
Its worker is another such command. Workers write summaries themselves and start no writer process.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PROGRAM = """#!{python} -ISs
import os, signal, socket, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, ["\\0".join([os.getcwd(), *sys.argv]).encode()], [0, 1, 2])
    forked = int.from_bytes(server.recv(4), "big")
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(forked, number))
    code = server.recv(1)
sys.exit(code[0] if code else "playhead: the process that ran the command has crashed")
"""

_LOADED = (
    "historyapp.asgi",
    "historyapp.celery",
    "historyapp.management.commands.import",
    "historyapp.management.commands.worker",
    "historyapp.services.compression.run",
    "historyapp.terminal.command_line",
    "historyapp.terminal.local",
    "historyapp.urls",
    "httpx",
    "rich.table",
)
"""What takes long to load. The first one sets Django up."""


@contextmanager
def forked_playhead(folder: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Saves the program in a folder. All its commands run in this environment.

    Yields the id of the process whose children run the commands.
    """
    folder.mkdir()
    address, program = str(folder / "socket"), folder / "playhead"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        loaded = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(listening.fileno()), str(program)],
            cwd=ROOT,
            env=environment,
            pass_fds=[listening.fileno()],
        )
    program.write_text(_PROGRAM.format(python=sys.executable, address=address))
    program.chmod(0o700)
    try:
        yield loaded.pid
    finally:
        loaded.terminate()
        loaded.wait(timeout=60)


def _load(program: str) -> None:
    """Loads all modules, and makes them start no program that would load them again."""
    for module in _LOADED:
        import_module(module)
    from historyapp import supervisor
    from historyapp.core.vocabularies import tokenizer
    from historyapp.management.commands import up, worker
    from historyapp.services.summary_writers import writers

    class WorkerProcess(supervisor.WorkerProcess):
        def __init__(self, worker_id: str) -> None:
            super().__init__(worker_id)
            self._command = [program, "worker", "--on-demand", worker_id]

    tokenizer("o200k_base")
    vars(up)["become_supervisor"] = supervisor.supervise  # without exec
    vars(supervisor)["WorkerProcess"] = WorkerProcess
    vars(writers)["WRITER"] = writers.InlineWriter()
    vars(worker)["prepare"] = lambda: None  # all modules are loaded, and there is no writer process to start


def _fork_for_each(listening: socket.socket) -> None:
    running: set[int] = set()
    while True:
        program, _ = listening.accept()
        running -= {pid for pid in running if os.waitpid(pid, os.WNOHANG) != (0, 0)}
        if (pid := os.fork()) == 0:
            listening.close()
            program.sendall(os.getpid().to_bytes(4, "big"))
            program.sendall(bytes([_run(program)]))
            os._exit(0)
        running.add(pid)
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
    _load(sys.argv[2])
    _fork_for_each(socket.socket(fileno=int(sys.argv[1])))
