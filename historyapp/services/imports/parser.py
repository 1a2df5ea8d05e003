"""Parses a transcript, in this process or in a parser process.

Parsing a large file and counting its tokens takes about as long as storing it, and Python runs one thread at
a time. The parser process sends plain values in batches and waits while too many bytes are unsent. So both
processes hold only a few batches in memory, whatever the file's size.
"""

import gc
import marshal
import os
import pickle
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from io import UnsupportedOperation
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

from historyapp.child import Child, limit_processor_time
from historyapp.child_on_demand import ChildEnded, ChildOnDemand
from historyapp.core.entries import EntryDraft, load_body
from historyapp.core.errors import Invalid, UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Importer, Operation, Source
from historyapp.core.json import load_dumped
from historyapp.core.prepared import Prepared, prepare, with_texts
from historyapp.services.imports import time_limit
from historyapp.services.imports.headers import within_limits
from historyapp.services.imports.time_limit import (
    detect_in_time,
    seconds_allowed,
    too_long,
    with_time_limit,
)

MODULE = "historyapp.services.imports.parser_process"
BATCH_OPERATIONS = 250
"""A batch is sent when it has this many operations."""
BATCH_BYTES = 2 * 1024 * 1024
"""A batch is sent when it reaches this many bytes."""
MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""The process waits while more bytes are unsent, because the storing process receives in bursts."""
BUFFER_SIZE = 256 * 1024
"""The number of bytes that one read of the file returns."""
PROCESS_MIN_SIZE = 16 * 1024 * 1024
"""The minimum file size for a parser process, in bytes. A process takes time to start and fill a batch."""
BASE_MEMORY = 400 * 2**20
MEMORY_PER_BYTE = 20
"""The limit for the memory of the process depends on the file's size. An empty object takes 64 bytes."""
MAX_KEPT_MEMORY = 300 * 2**20
"""A process with more bytes of memory after a file is ended."""
BASE_STORED, MAX_FACTOR = 2**20, 32
"""The entries of an uploaded file may take this many bytes, plus this many times its size: an importer may
write a text again, such as the instructions of a Codex session with each developer message. The files of the
corpus take at most 1.5 times their size."""
STORES_TOO_MUCH = (
    f"The entries of the file take more than {{:,}} bytes, {BASE_STORED:,} and {MAX_FACTOR} times the file's "
    "size. The entries before that are kept. `playhead import` on the server has no such limit."
)
MAX_ENTRY = 64 * 2**20
"""Bytes of JSON of one entry, which the storing process copies several times."""
ENTRY_TOO_LARGE = (
    f"An entry takes {{:,}} bytes of JSON, and at most {MAX_ENTRY:,} are imported. The entries before it are "
    "kept. Shorten it, then import the file again."
)
TOO_MUCH_MEMORY = (
    "Reading the file took more than {:,.0f} MB of memory and was stopped. The entries before that are kept. "
    "Split the file and import the parts."
)
MAX_UNREAD, END_SECONDS = 2, 0.1
"""Messages about a file that are received although the caller left: a new process takes nearly a second. So
long the end of a short file may take."""
PROCESS_ENDED = "The process that parsed the file has ended. Import the file again."


class ParsedOperation(NamedTuple):
    """An operation, with its entry if the parser has prepared it."""

    operation: Operation
    prepared: Prepared | None = None
    """The entry of an ``Append`` with its tokens, ready to be stored."""


class InlineParser:
    """Parses in this process and does not prepare entries.

    Raises:
        UnreadableTranscript: during iteration, when the file cannot be read in this format.
        OSError: during iteration, when the file cannot be opened or read.
    """

    def __init__(self, importer: Importer, source: Source) -> None:
        self._importer, self._source = importer, source

    @property
    def position(self) -> int:
        """The number of bytes read from the file."""
        return self._source.stream.tell()

    def __iter__(self) -> Iterator[ParsedOperation]:
        self._source.stream.seek(0)
        operations = with_time_limit(self._importer.read(self._source), self._source)
        return (ParsedOperation(within_limits(operation)) for operation in operations)


class RemoteParser:
    """Receives the operations of a parser process. Raises the errors of :class:`InlineParser`."""

    def __init__(self, pipe: Connection, end_error: Callable[[], UnreadableTranscript]) -> None:
        """
        Args:
            end_error: returns the error to raise if the process has ended.
        """
        self._pipe, self._end_error = pipe, end_error
        self.position = 0
        self.is_complete = False
        """Whether the process has sent its last message about the file."""

    def __iter__(self) -> Iterator[ParsedOperation]:
        while not self.is_complete:
            for dumped in self.receive() or ():
                if isinstance(dumped, bytes):
                    yield ParsedOperation(pickle.loads(dumped))  # noqa: S301 our own process wrote it
                    continue
                session, provisional, kind, created_at, tokens, body, metadata = dumped
                time = datetime.fromisoformat(created_at) if created_at else None
                draft = EntryDraft(load_body(kind, load_dumped(body)), time, load_dumped(metadata))
                prepared = with_texts(Prepared(draft, tokens, body, metadata))
                yield ParsedOperation(Append(session, draft, provisional), prepared)

    def receive(self) -> Any:
        """The content of the next message."""
        try:
            message = marshal.loads(self._pipe.recv_bytes())  # noqa: S302 our own process wrote it
        except (EOFError, OSError):  # the pipe was closed between messages, or within one
            raise self._end_error() from None
        kind, self.position, content = message
        self.is_complete = kind != "batch"
        if kind == "error":
            raise pickle.loads(content)  # noqa: S301 our own process wrote it
        return content

    def receive_end(self) -> None:
        """Receives the rest of a short file that the caller does not need."""
        with suppress(UnreadableTranscript, OSError):
            for _ in range(MAX_UNREAD):
                if not self.is_complete and self._pipe.poll(END_SECONDS):
                    self.receive()


class ParserProcess:
    """A process that parses one file after another. It starts with the first file and ends with the ``with``
    block.

    The kernel kills the process if a file takes far too much processor time. The next file gets a new
    process.

    Args:
        idle_seconds: the process ends after this time without a file. The next file starts a new one.
        module: the module that the process runs.
    """

    def __init__(self, idle_seconds: float = 3600, module: str = MODULE) -> None:
        self._process = ChildOnDemand(module, idle_seconds)

    def __enter__(self) -> "ParserProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    @property
    def pid(self) -> int | None:
        """The process id, if a process has been started."""
        return self._process.child.pid if self._process.child else None

    def detect(self, source: Source) -> Importer:
        """The importer for a file.

        Raises:
            UnreadableTranscript: as ``detect_in_time``.
            OSError: when no process can be started.
        """
        with self._parse_remotely("", source) as parser:
            return IMPORTERS[parser.receive()]

    def parse(self, importer: Importer, source: Source) -> AbstractContextManager[RemoteParser]:
        """A parser of the file. If much of the file is not read, the next one gets a new process.

        Raises:
            OSError: when no process can be started.
        """
        return self._parse_remotely(importer.name, source)

    @contextmanager
    def _parse_remotely(self, task: str, source: Source) -> Iterator[RemoteParser]:
        """``task``: the importer's name; empty to detect the importer."""
        allowed = seconds_allowed(source)
        memory = BASE_MEMORY + MEMORY_PER_BYTE * source.stream.seek(0, os.SEEK_END)
        try:
            child = self._process.send(partial(_send, task, source))
        except ChildEnded:
            raise UnreadableTranscript(PROCESS_ENDED) from None
        with child.limited_memory(memory) as is_too_large:

            def end_error() -> UnreadableTranscript:
                if is_too_large():
                    return UnreadableTranscript(TOO_MUCH_MEMORY.format(memory / 1e6))
                return too_long(allowed) if child.took_too_long() else UnreadableTranscript(PROCESS_ENDED)

            parser = RemoteParser(child.pipe, end_error)
            try:
                yield parser
            finally:
                parser.receive_end()
                if not parser.is_complete or child.memory() > MAX_KEPT_MEMORY:
                    self._process.stop()


def _send(task: str, source: Source, child: Child) -> Child:
    """Sends a task and its file to the process, which sends the results to its pipe."""
    child.pipe.send((task, source.folder, source.name))
    if not source.folder:  # an uploaded file has no path
        with on_disk(source.stream) as file:
            send_handle(child.pipe, file.fileno(), child.pid)
    child.pipe.recv_bytes()  # the process has started to parse
    return child


def on_disk(stream: BinaryIO) -> AbstractContextManager[Any]:
    """An open file on disk with the stream's content."""
    stream.seek(0)
    with suppress(UnsupportedOperation):
        stream.fileno()
        return nullcontext(stream)
    copy = TemporaryFile()  # noqa: SIM115 the caller closes it
    shutil.copyfileobj(stream, copy)
    copy.seek(0)
    return copy


def open_parser(
    importer: Importer, source: Source, *, process: ParserProcess | None = None
) -> AbstractContextManager[InlineParser | RemoteParser]:
    """A parser of the file from its start, in this process or in ``process``."""
    return process.parse(importer, source) if process else nullcontext(InlineParser(importer, source))


def relax_garbage_collection() -> None:
    """Collects garbage less often: an import creates many objects and hardly any cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def serve_files(pipe: Connection, idle_seconds: float) -> None:
    """Runs in the parser process: receives files and sends back their operations, until it is idle."""
    relax_garbage_collection()
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            while pipe.poll(idle_seconds):
                task, folder, name = pipe.recv()
                path = Path(folder, name) if folder else recv_handle(pipe)
                _send_file(BatchSender(pipe, executor), task, path, name, folder)
        except (EOFError, ConnectionError):
            return  # the storing process has ended


class BatchSender:
    """Sends messages in a thread, because a pipe blocks until the other side receives."""

    def __init__(self, pipe: Connection, executor: Executor) -> None:
        self._pipe, self._executor = pipe, executor
        self._unsent: deque[tuple[Future[None], int]] = deque()

    def send(self, kind: str, position: int, content: Any = None) -> None:
        """Sends a message. Waits while too many bytes are unsent, and after the last message until all are
        sent.

        Raises:
            ConnectionError: when the other side has closed the pipe. For a batch, the next call may raise it.
        """
        message = marshal.dumps((kind, position, content))
        self._unsent.append((self._executor.submit(self._pipe.send_bytes, message), len(message)))
        allowed_bytes = MAX_UNSENT_BYTES if kind == "batch" else 0
        while self._unsent and (
            self._unsent[0][0].done() or sum(length for _, length in self._unsent) > allowed_bytes
        ):
            self._unsent.popleft()[0].result()


def _send_file(sender: BatchSender, task: str, path: Path | int, name: str, folder: str) -> None:
    sender.send("started", 0)
    try:
        with open(path, "rb", buffering=BUFFER_SIZE) as stream:  # noqa: PTH123 it may be a descriptor
            source = Source(name, stream, folder)
            allowed = seconds_allowed(source) + time_limit.GRACE_SECONDS
            limit_processor_time(allowed)
            if not task:
                sender.send("format", 0, detect_in_time(source).name)
                return
            for batch in _batches(
                with_time_limit(IMPORTERS[task].read(source), source), _most_stored(source)
            ):
                sender.send("batch", stream.tell(), batch)
                limit_processor_time(allowed)
            sender.send("end", stream.tell())
    except ConnectionError:
        raise
    except (UnreadableTranscript, OSError) as error:
        sender.send("error", 0, pickle.dumps(error))
    finally:
        limit_processor_time(0)


def _most_stored(source: Source) -> float:
    """The bytes that the operations of an uploaded file may take. A file with a folder is on the server: its
    user may import what they like, and a session may have a file for each event."""
    if source.folder:
        return inf
    return BASE_STORED + MAX_FACTOR * source.stream.seek(0, os.SEEK_END)


def _batches(operations: Iterator[Operation], most: float) -> Iterator[list[Any]]:
    """The operations in batches, including those before an error.

    Raises:
        UnreadableTranscript: when they take more than ``most`` bytes.
    """
    batch, size, left = list[Any](), 0, most
    try:
        for operation in operations:
            dumped, length = _dump(within_limits(operation))
            left -= length
            if left < 0:
                raise UnreadableTranscript(STORES_TOO_MUCH.format(most))
            batch.append(dumped)
            size += length
            if len(batch) == BATCH_OPERATIONS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except (UnreadableTranscript, OSError):
        yield batch
        raise
    yield batch


def _dump(operation: Operation) -> tuple[Any, int]:
    """An operation as plain values, because pickling models is slow, and its approximate size in bytes.

    Raises:
        UnreadableTranscript: when an entry is too large or holds too many JSON values.
    """
    if not isinstance(operation, Append):
        pickled = pickle.dumps(operation)
        return pickled, len(pickled)
    draft = operation.draft
    created_at = draft.created_at.isoformat() if draft.created_at else None
    try:
        prepared = prepare(draft)
    except Invalid as error:
        raise UnreadableTranscript(error.detail) from None
    if prepared.size > MAX_ENTRY:
        raise UnreadableTranscript(ENTRY_TOO_LARGE.format(prepared.size))
    entry = draft.body.kind, created_at, prepared.tokens, prepared.body, prepared.metadata
    return (operation.session, operation.provisional, *entry), prepared.size
