"""The writer process: ``python -m historyapp.services.compression.writer_process PIPE PARENT``.

Summaries that call a model have threads of their own, so that many can wait for it, but only one thread works
at a time. What the process uses of processor time is that thread's, and the kernel ends the process when it
is too much. The parent knows who worked, and lets all others be written again.
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
from historyapp.core.vocabularies import tokenizer
from historyapp.services.compression.writing import WriteRequest, write

NICENESS = 10
"""As of the worker: agents and people go first."""
BASE_SECONDS = 10.0
SECONDS_PER_MB = 20.0
"""Processor time for one summary between two model calls, by the size of what it summarises. Real steps take
a tenth of it."""


class _CallFailed(Exception):
    """The model call failed. The parent knows why."""


class _Process:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._working = Lock()
        self._answers: dict[int, SimpleQueue[str | NotSummarised | None]] = {}

    def serve(self) -> None:
        """Starts summaries and passes on the answers of models, until the parent has gone."""
        while True:
            data = self._pipe.recv_bytes()
            kind, number, content = pickle.loads(data)  # noqa: S301 our own process wrote it
            if kind == "answer":
                self._answers[number].put(content)
            elif kind == "language":
                Thread(target=self._load_language, args=(number, content), daemon=True).start()
            else:
                request, calls_model = content
                self._answers[number] = SimpleQueue()
                allowed = BASE_SECONDS + SECONDS_PER_MB * len(data) / 1e6
                write = partial(self._write, number, request, calls_model, allowed)
                if calls_model:
                    Thread(target=write, daemon=True).start()
                else:
                    write()  # a thread would take as long to start as the summary

    def _load_language(self, number: int, name: str) -> None:
        with self._working:
            self._send("done", number, load_language(name)[1])

    def _write(self, number: int, request: WriteRequest, calls_model: bool, allowed: float) -> None:
        def complete(prompt: SummaryPrompt) -> str:
            limit_processor_time(0)
            self._send("prompt", number, prompt)
            self._working.release()
            answer = self._answers[number].get()
            self._begin(number, allowed)
            if isinstance(answer, str):
                return answer
            raise answer or _CallFailed

        with self._working:
            load_language(request.language)  # without a limit: it depends on no step
        self._begin(number, allowed)
        try:
            self._send("done", number, write(request, complete if calls_model else None))
        except _CallFailed:
            self._send("done", number, None)
        except PlayheadError as error:
            self._send("error", number, error)
        except Exception as error:  # noqa: BLE001 the parent logs it
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._send("fault", number, (type(error).__name__, f"{Path(place.filename).name}:{place.lineno}"))
        finally:
            limit_processor_time(0)
            del self._answers[number]
            self._working.release()

    def _begin(self, number: int, allowed: float) -> None:
        """Waits until no other summary is worked on."""
        self._working.acquire()
        self._send("working", number, allowed)
        limit_processor_time(allowed)

    def _send(self, kind: str, number: int, content: Any) -> None:
        self._pipe.send_bytes(pickle.dumps((kind, number, content)))


def main() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    tokenizer("o200k_base")
    try:
        _Process(pipe_to_parent(sys.argv[1:])).serve()
    except (EOFError, ConnectionError):
        os._exit(0)  # threads may wait for models


if __name__ == "__main__":
    main()
