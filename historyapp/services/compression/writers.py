"""Writes summaries in a process that can be killed. This module contains both ends of its pipe.

Each summary that calls a model has a thread, so that many can wait for models, but only one thread works at a
time. So the processor time of the process is that thread's, and the kernel kills the process if it uses too
much. The parent process knows which summary was being written, and sends all others to a new process. The
writer process does not load Django.
"""

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol

from historyapp.child import Child, limit_processor_time, pipe_to_parent
from historyapp.core.errors import PlayheadError
from historyapp.core.language import load_language
from historyapp.core.strategies.base import NOT_REPEATED, Complete, NotSummarised, SummaryPrompt
from historyapp.core.strategies.writing import WriteRequest, WrittenSummary, write
from historyapp.core.vocabularies import tokenizer

MODULE = "historyapp.services.compression.writers"
MAX_STARTS = 3
"""A summary fails after this many processes have ended while they were idle."""
NICENESS = 10
"""The same as a worker's, because agents and people have priority."""
BASE_SECONDS = 10.0
SECONDS_PER_MB = 20.0
"""The limit for a summary's processor time between two model calls depends on the size of its input. Real
steps take a tenth of it."""


class Writer(Protocol):
    """Writes summaries, in any thread."""

    def write(self, request: WriteRequest, complete: Complete | None) -> WrittenSummary:
        """Writes a summary. Raises the strategy's errors, and :class:`NotSummarised` if it takes too long."""
        ...

    def language_note(self, name: str) -> str:
        """A sentence that says why a spaCy model cannot be used; empty if it can."""
        ...


class InlineWriter:
    """Writes in this process and thread, without a time limit."""

    def write(self, request: WriteRequest, complete: Complete | None) -> WrittenSummary:
        return write(request, complete)

    def language_note(self, name: str) -> str:
        return load_language(name)[1]


class SummaryTookTooLong(NotSummarised):
    """Writing a summary took more processor time than the limit for the length of its steps."""


class WriterFault(Exception):
    """Writing a summary raised an unexpected error in the writer process."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, place)
        self.name, self.place = name, place


class _ProcessEnded(Exception):
    """The writer process has ended while this summary was waiting."""

    def __init__(self, while_working: bool) -> None:
        self.while_working = while_working
        """Whether the process was working on another summary."""


class _Reply(NamedTuple):
    kind: str
    content: Any = None


class _WriterProcess:
    """One writer process and its summaries."""

    def __init__(self, module: str) -> None:
        self._child = Child(module)
        self._lock = Lock()
        """Protects writes to the pipe, and the fields below."""
        self._inboxes: dict[int, SimpleQueue[_Reply]] = {}
        self.ended = False
        self._working: tuple[int, float] | None = None
        """The summary that the process is working on, and its limit in seconds."""
        Thread(target=self._receive, daemon=True).start()

    def start(self, kind: str, number: int, content: Any) -> SimpleQueue[_Reply]:
        """Sends a request. The returned queue receives the replies."""
        inbox = SimpleQueue[_Reply]()
        with self._lock:
            self._inboxes[number] = inbox
        self.send(kind, number, content)
        return inbox

    def send(self, kind: str, number: int, content: Any) -> None:
        data = pickle.dumps((kind, number, content))
        with self._lock:
            if self.ended and number in self._inboxes:
                self._inboxes.pop(number).put(_Reply("ended", True))
            elif not self.ended:
                with suppress(OSError):  # the process has just ended: the inbox gets an "ended" reply
                    self._child.pipe.send_bytes(data)

    def stop(self) -> None:
        self._child.stop()

    def _receive(self) -> None:
        """Runs in a thread: delivers the replies of the process until it ends."""
        with suppress(EOFError, OSError):
            while True:
                kind, number, content = pickle.loads(self._child.pipe.recv_bytes())  # noqa: S301 ours
                if kind == "working":
                    self._working = number, content
                    continue
                self._working = None
                inbox = self._inboxes[number] if kind == "prompt" else self._inboxes.pop(number)
                inbox.put(_Reply(kind, content))
        too_long = self._child.took_too_long()
        with self._lock:
            self.ended = True
            stopped, allowed = self._working or (0, 0.0)
            for number, inbox in self._inboxes.items():
                if number != stopped:
                    inbox.put(_Reply("ended", bool(stopped)))
                else:
                    inbox.put(_Reply("too long" if too_long else "killed", allowed))
            self._inboxes.clear()
        self._child.stop()


class _RepeatableModelCalls:
    """The model calls of one summary. If it is written again, they return the same completions."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._completions: list[tuple[SummaryPrompt, str | NotSummarised]] = []
        self._next = 0
        self.error: Exception | None = None
        """The error of the last model call, if it failed."""

    def repeat_from_start(self) -> None:
        self._next = 0

    def __call__(self, prompt: SummaryPrompt) -> str | NotSummarised | None:
        """The completion, or None if the model call failed."""
        if self._next < len(self._completions) and self._completions[self._next][0] == prompt:
            completion = self._completions[self._next][1]
        else:
            del self._completions[self._next :]
            try:
                completion = self._complete(prompt)
            except NotSummarised as refusal:
                completion = refusal
            except Exception as error:  # noqa: BLE001 it is raised after the process has stopped writing
                self.error = error
                return None
            self._completions.append((prompt, completion))
        self._next += 1
        return completion


class ProcessWriter:
    """Writes in another process, which starts with the first summary. Threads may share it."""

    def __init__(self, module: str = MODULE) -> None:
        self._module = module
        self._lock = Lock()
        self._current: _WriterProcess | None = None
        self._numbers = count(1)

    def start(self, language: str) -> None:
        """Starts the process and makes it load a spaCy model, without waiting."""
        self._process().start("language", next(self._numbers), language)

    def stop(self) -> None:
        """Ends the process. The next summary starts a new one."""
        with self._lock:
            if self._current:
                self._current.stop()

    def language_note(self, name: str) -> str:
        return str(self._with_process(partial(self._complete_prompts, "language", name, None)))

    def write(self, request: WriteRequest, complete: Complete | None) -> WrittenSummary:
        """See :class:`Writer`. If the process ends because of another summary, no model call is repeated.

        Raises:
            WriterFault: when a strategy raises an unexpected error.
        """
        model_calls = _RepeatableModelCalls(complete) if complete else None
        content = request, complete is not None
        written: WrittenSummary = self._with_process(
            partial(self._complete_prompts, "write", content, model_calls)
        )
        return written

    def _with_process(self, work: Callable[[_WriterProcess], Any]) -> Any:
        """Calls ``work``, and again with a new process if the process has ended because of another
        summary."""
        idle_ends = 0
        while True:
            process = self._process()
            try:
                return work(process)
            except _ProcessEnded as ended:
                idle_ends += not ended.while_working
                if idle_ends == MAX_STARTS:
                    raise NotSummarised("The process that writes summaries ended several times.") from None

    def _process(self) -> _WriterProcess:
        with self._lock:
            if self._current is None or self._current.ended:
                self._current = _WriterProcess(self._module)
            return self._current

    def _complete_prompts(
        self, kind: str, content: Any, complete: _RepeatableModelCalls | None, process: _WriterProcess
    ) -> Any:
        """Completes the prompts of one summary until it is written."""
        number = next(self._numbers)
        inbox = process.start(kind, number, content)
        if complete:
            complete.repeat_from_start()
        while True:
            match inbox.get():
                case _Reply("prompt", prompt):
                    assert complete is not None
                    process.send("completion", number, complete(prompt))
                case _Reply("done", None):
                    assert complete is not None
                    assert complete.error is not None
                    raise complete.error
                case _Reply("done", written):
                    return written
                case _Reply("error", error):
                    raise error
                case _Reply("fault", (name, place)):
                    raise WriterFault(name, place)
                case _Reply("too long", allowed):
                    raise SummaryTookTooLong(
                        f"Writing the summary took more than {allowed:.0f} s of processor time and was "
                        f"stopped. {NOT_REPEATED}"
                    )
                case _Reply("killed"):
                    raise NotSummarised(
                        "The process that wrote the summary was killed. Check whether memory is short."
                    )
                case _Reply(_, while_working):
                    raise _ProcessEnded(while_working)


WRITER = ProcessWriter()
"""This process's writer. It starts the writer process with the first summary."""


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
            data = self._pipe.recv_bytes()
            kind, number, content = pickle.loads(data)  # noqa: S301 our own process wrote it
            if kind == "completion":
                self._completions[number].put(content)
            elif kind == "language":
                Thread(target=self._load_language, args=(number, content), daemon=True).start()
            else:
                request, calls_model = content
                self._completions[number] = SimpleQueue()
                allowed = BASE_SECONDS + SECONDS_PER_MB * len(data) / 1e6
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
