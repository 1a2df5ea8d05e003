"""The process that writes summaries, and can be killed.

Each summary that calls a model has a thread, so that many can wait for models, but only one thread works at a
time. So the processor time of the process is that thread's, and the kernel kills the process if it uses too
much. The process does not load Django.
"""

import os
import pickle
import sys
import traceback
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from historyapp.child import limit_processor_time, pipe_to_parent
from historyapp.core.errors import PlayheadError
from historyapp.core.language import load_language
from historyapp.core.strategies.base import NotSummarised, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest, write
from historyapp.core.vocabularies import tokenizer

NICENESS = 10
"""The same as a worker's, because agents and people have priority."""
BASE_SECONDS = 10.0
SECONDS_PER_MB = 20.0
"""The limit for a summary's processor time between two model calls depends on the size of its input. Real
steps take a tenth of it."""


class _ModelCallFailed(Exception):
    """The model call failed. The parent has the error."""


class _Server:
    """The writer process's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._working = Lock()
        self._completions: dict[int, SimpleQueue[str | NotSummarised | None]] = {}

    def serve(self) -> None:
        """Starts summaries and delivers the models' completions, until the parent has ended."""
        while True:
            self._start(self._pipe.recv_bytes())

    def _start(self, data: bytes) -> None:
        kind, number, content = pickle.loads(data)  # noqa: S301 our own process wrote it
        if kind == "completion":
            self._completions[number].put(content)
        elif kind == "language":
            Thread(target=self._load_language, args=(number, content), daemon=True).start()
        else:
            request, calls_model = content
            self._completions[number] = SimpleQueue()
            allowed = BASE_SECONDS + SECONDS_PER_MB * len(data) / 1e6
            del data  # as long as the texts
            write = partial(self._write, number, request, calls_model, allowed)
            if calls_model:
                Thread(target=write, daemon=True).start()
            else:
                write()  # starting a thread would take as long as the summary

    def _load_language(self, number: int, name: str) -> None:
        with self._working:
            self._send("done", number, load_language(name)[1])

    def _write(self, number: int, request: WriteRequest, calls_model: bool, allowed: float) -> None:
        def complete(prompt: SummaryPrompt) -> str:
            limit_processor_time(0)
            self._send("prompt", number, prompt)
            self._working.release()
            completion = self._completions[number].get()
            self._start_working(number, allowed)
            if isinstance(completion, str):
                return completion
            raise completion or _ModelCallFailed

        with self._working:
            load_language(request.language)  # without a limit: loading does not depend on the steps
        self._start_working(number, allowed)
        try:
            self._send("done", number, write(request, complete if calls_model else None))
        except _ModelCallFailed:
            self._send("done", number, None)
        except PlayheadError as error:
            self._send("error", number, error)
        except Exception as error:  # noqa: BLE001 the parent logs it
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._send("fault", number, (type(error).__name__, f"{Path(frame.filename).name}:{frame.lineno}"))
        finally:
            limit_processor_time(0)
            del self._completions[number]
            self._working.release()

    def _start_working(self, number: int, allowed: float) -> None:
        """Waits until no other summary is being written, then starts the time limit."""
        self._working.acquire()
        self._send("working", number, allowed)
        limit_processor_time(allowed)

    def _send(self, kind: str, number: int, content: Any) -> None:
        self._pipe.send_bytes(pickle.dumps((kind, number, content)))


def main() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    tokenizer("o200k_base")
    try:
        _Server(pipe_to_parent(sys.argv[1:])).serve()
    except (EOFError, ConnectionError):
        os._exit(0)  # threads may wait for models


if __name__ == "__main__":
    main()
