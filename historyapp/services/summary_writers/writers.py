"""Writes summaries in a process that can be killed: :mod:`historyapp.services.summary_writers.process`.

The process writes one summary at a time, and projects take turns. This module knows which summary is being
written: if the process is ended because of it, all others start again in a new process. If a summary takes
long while another project waits, it starts again in a second process, which all such projects share.
"""

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from historyapp.child import Child
from historyapp.core.language import load_language
from historyapp.core.strategies.base import NOT_REPEATED, Complete, NotSummarised
from historyapp.core.strategies.writing import WriteRequest, WrittenSummary, write
from historyapp.services.summary_writers.model_calls import RepeatableModelCalls
from historyapp.services.summary_writers.scheduler import WriterScheduler

MODULE = "historyapp.services.summary_writers.process"
MAX_STARTS, FIRST_PAUSE = 6, 0.5
"""A summary fails after this many processes have ended while they were idle. Before it starts again it waits
for this many seconds, then for twice as long each time: what kills the processes may end meanwhile. Once a
summary has failed for that, the others start again without waiting, until one is written."""
ENDED = "The process that writes summaries ended several times. Check whether memory is short, then retry."
SLICE_SECONDS = 3.0
"""Seconds of processor time after which a summary is stopped if another project waits. It starts again in the
second process."""
SLOW_SECONDS = 30.0
"""A project whose summary took that long, or was cancelled while it was written, uses the second process for
this many seconds. That process ends when it was not used for as long."""
CANCEL_CHECK_SECONDS = 0.5


class Caller(NamedTuple):
    """For whom a summary is written."""

    project: UUID
    is_cancelled: Callable[[], bool]
    """Whether the summary is not needed any more."""


NOBODY = Caller(UUID(int=0), lambda: False)


class Writer(Protocol):
    """Writes summaries, in any thread."""

    def write(
        self, request: WriteRequest, complete: Complete | None, caller: Caller = NOBODY
    ) -> WrittenSummary:
        """Writes a summary. Raises the strategy's errors, :class:`NotSummarised` if it takes too long, and
        :class:`WriteCancelled`."""
        ...

    def language_note(self, name: str, caller: Caller = NOBODY) -> str:
        """A sentence that says why a spaCy model cannot be used; empty if it can."""
        ...


class InlineWriter:
    """Writes in this process and thread, without a time limit."""

    def write(
        self, request: WriteRequest, complete: Complete | None, caller: Caller = NOBODY
    ) -> WrittenSummary:
        return write(request, complete)

    def language_note(self, name: str, caller: Caller = NOBODY) -> str:
        return load_language(name)[1]


class SummaryTookTooLong(NotSummarised):
    """Writing a summary took more processor time than the limit for the length of its steps."""


class WriteCancelled(Exception):
    """The summary was not written, because its run has ended."""


class WriterFault(Exception):
    """Writing a summary raised an unexpected error in the writer process."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, place)
        self.name, self.place = name, place


class _ProcessEnded(Exception):
    """The writer process has ended while this summary was waiting."""

    def __init__(self, while_working: bool) -> None:
        self.while_working = while_working
        """Whether it was ended because of a summary, and not on its own."""


class _Reply(NamedTuple):
    kind: str
    content: Any = None


class _Working(NamedTuple):
    """The summary that a process is working on."""

    number: int
    allowed: float
    """Its limit in seconds."""
    began: float
    """The processor time of the process when it began."""


class _WriterProcess:
    """One writer process and its summaries."""

    def __init__(self, module: str) -> None:
        self._child = Child(module)
        self._lock = Lock()
        """Protects writes to the pipe, and the fields below."""
        self._inboxes: dict[int, SimpleQueue[_Reply]] = {}
        self.ended = False
        self._working: _Working | None = None
        self.abandoned = False
        """Whether it was killed. It ends a moment later."""
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

    def works_longer_than(self, seconds: float) -> bool:
        """Whether the current summary has taken more processor time since its last model call."""
        working = self._working
        return working is not None and self._child.processor_seconds() - working.began > seconds

    def abandon(self) -> None:
        """Ends the process. All its summaries, also the current one, must start again in another process."""
        self.abandoned = True
        self._child.kill()

    def _receive(self) -> None:
        """Runs in a thread: delivers the replies of the process until it ends."""
        with suppress(EOFError, OSError):
            while True:
                kind, number, content = pickle.loads(self._child.pipe.recv_bytes())  # noqa: S301 ours
                if kind == "working":
                    self._working = _Working(number, content, self._child.processor_seconds())
                    continue
                self._working = None
                inbox = self._inboxes[number] if kind == "prompt" else self._inboxes.pop(number)
                inbox.put(_Reply(kind, content))
        too_long = self._child.took_too_long()
        with self._lock:
            self.ended = True
            working = self._working
            for number, inbox in self._inboxes.items():
                if self.abandoned or working is None or number != working.number:
                    inbox.put(_Reply("ended", self.abandoned or working is not None))
                else:
                    inbox.put(_Reply("too long" if too_long else "killed", working.allowed))
            self._inboxes.clear()
        self._child.stop()


class _Lane:
    """One process at a time, and the scheduler of its use."""

    def __init__(self, module: str, *, ends_unused: bool = False) -> None:
        self._module, self._ends_unused = module, ends_unused
        self._lock = Lock()
        self._current: _WriterProcess | None = None
        self.scheduler = WriterScheduler()

    def process(self) -> _WriterProcess:
        """The process. A new one if it has ended or was killed."""
        with self._lock:
            if self._current is None or self._current.ended or self._current.abandoned:
                self._current = _WriterProcess(self._module)
                if self._ends_unused:
                    Thread(target=self._end_unused, args=(self._current,), daemon=True).start()
            return self._current

    def works_longer_than(self, seconds: float) -> bool:
        return self._current is not None and self._current.works_longer_than(seconds)

    def abandon(self) -> None:
        if self._current:
            self._current.abandon()

    def stop(self) -> None:
        with self._lock:
            if self._current:
                self._current.stop()

    def _end_unused(self, process: _WriterProcess) -> None:
        """Runs in a thread. Summaries that still wait for a model start again in another process."""
        while not process.ended:
            time.sleep(1)
            if self.scheduler.unused_seconds() > SLOW_SECONDS:
                process.abandon()
                return


class ProcessWriter:
    """Writes in other processes. The first starts with the first summary. Threads may share it."""

    def __init__(self, module: str = MODULE) -> None:
        self._lane, self._slow_lane = _Lane(module), _Lane(module, ends_unused=True)
        self._slow_until: dict[UUID, float] = {}
        """The monotonic time until which a project uses the second process."""
        self._gave_up = False
        """Whether a summary has failed because processes ended, and none was written since."""
        self._numbers = count(1)

    def start(self, language: str) -> None:
        """Starts the process and makes it load a spaCy model, without waiting."""
        self._lane.process().start("language", next(self._numbers), language)

    def stop(self) -> None:
        """Ends the processes. The next summary starts a new one."""
        self._lane.stop()
        self._slow_lane.stop()

    def language_note(self, name: str, caller: Caller = NOBODY) -> str:
        return str(self._with_lane(caller, partial(self._complete_prompts, "language", name, None)))

    def write(
        self, request: WriteRequest, complete: Complete | None, caller: Caller = NOBODY
    ) -> WrittenSummary:
        """See :class:`Writer`. If the process ends because of another summary, no model call is repeated.

        Raises:
            WriterFault: when a strategy raises an unexpected error.
        """
        model_calls = RepeatableModelCalls(complete) if complete else None
        content = request, complete is not None
        written: WrittenSummary = self._with_lane(
            caller, partial(self._complete_prompts, "write", content, model_calls)
        )
        return written

    def _with_lane(self, caller: Caller, work: Callable[[Caller, _Lane], Any]) -> Any:
        """Calls ``work``, and again if the process has ended because of another summary, or because others
        wait."""
        idle_ends = 0
        while True:
            is_slow = self._slow_until.get(caller.project, 0) > time.monotonic()
            try:
                result = work(caller, self._slow_lane if is_slow else self._lane)
                self._gave_up = False
                return result
            except _ProcessEnded as ended:
                if ended.while_working:
                    continue
                idle_ends += 1
                if idle_ends == MAX_STARTS:
                    self._gave_up = True
                    raise NotSummarised(ENDED) from None
            if not self._gave_up:
                _pause(FIRST_PAUSE * 2 ** (idle_ends - 1), caller)

    @contextmanager
    def _exclusive(self, caller: Caller, lane: _Lane) -> Iterator[None]:
        """Has a lane's process until the block ends. Waits while another summary has it."""

        def look(project: UUID | None) -> None:
            if caller.is_cancelled():
                raise WriteCancelled
            is_other = project is not None and project != caller.project
            if is_other and lane is self._lane and lane.works_longer_than(SLICE_SECONDS):
                self._mark_slow(project)
                lane.abandon()

        with lane.scheduler.exclusive(caller.project, look):
            began = time.monotonic()
            try:
                yield
            except WriteCancelled:
                # The process was killed: the next summaries of others must not start again.
                self._mark_slow(caller.project)
                raise
            if lane is self._slow_lane and time.monotonic() > began + SLICE_SECONDS:
                self._mark_slow(caller.project)

    def _mark_slow(self, project: UUID | None) -> None:
        """Lets a project use the other process for a while. Removes marks that have ended."""
        now = time.monotonic()
        for other, until in list(self._slow_until.items()):
            if until < now:
                self._slow_until.pop(other, None)
        if project is not None:
            self._slow_until[project] = now + SLOW_SECONDS

    def _complete_prompts(
        self, kind: str, content: Any, complete: RepeatableModelCalls | None, caller: Caller, lane: _Lane
    ) -> Any:
        """Completes the prompts of one summary until it is written."""
        number = next(self._numbers)
        if complete:
            complete.repeat_from_start()
        with self._exclusive(caller, lane):
            process = lane.process()
            inbox = process.start(kind, number, content)
            reply = _next_reply(inbox, process, caller)
        while reply.kind == "prompt":
            assert complete is not None
            completion = complete(reply.content)
            with self._exclusive(caller, lane):
                process.send("completion", number, completion)
                reply = _next_reply(inbox, process, caller)
        return _result(reply, complete)


def _pause(seconds: float, caller: Caller) -> None:
    """Waits before a summary starts again, unless the caller cancels it."""
    until = time.monotonic() + seconds
    while (rest := until - time.monotonic()) > 0:
        if caller.is_cancelled():
            raise WriteCancelled
        time.sleep(min(rest, CANCEL_CHECK_SECONDS))


def _next_reply(inbox: SimpleQueue[_Reply], process: _WriterProcess, caller: Caller) -> _Reply:
    """The next reply. If the caller cancels the summary, the process is ended."""
    while True:
        with suppress(Empty):
            return inbox.get(timeout=CANCEL_CHECK_SECONDS)
        if caller.is_cancelled():
            process.abandon()
            raise WriteCancelled


def _result(reply: _Reply, complete: RepeatableModelCalls | None) -> Any:
    """What the last reply to a summary's request contains, or raises."""
    match reply:
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
