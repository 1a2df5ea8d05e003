"""Parsing a transcript, in this process or in another one that runs beside it.

A large file takes about as long to parse, with its tokens counted, as to store, and Python runs one thread
at a time. The other process sends plain values in batches and waits while too many bytes are unsent, so both
processes hold a few batches at most, whatever the file's size.
"""

import gc
import marshal
import multiprocessing
import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple

from historyapp.core.entries import EntryDraft, load_body
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Importer, Operation, Source
from historyapp.core.json import load_dumped
from historyapp.core.prepared import Prepared, prepare
from historyapp.services.imports.parser_process import serve
from historyapp.services.imports.time_limit import with_time_limit

BATCH = 250
"""The most operations of a batch."""
BATCH_SIZE = 2 * 1024 * 1024
"""A batch is sent once it has this many bytes, however few operations it has."""
MOST_UNSENT = 8 * 1024 * 1024
"""The most bytes that wait to be received: the storing process receives in bursts."""
BUFFER = 256 * 1024
"""Bytes read from the file at once."""
PROCESS_MIN_SIZE = 16 * 1024 * 1024
"""The least size, in bytes, of a file worth another process: it takes time to start and to fill a batch."""
ENDED = "The process that parsed the file has ended. Import the file again."


class ParsedOperation(NamedTuple):
    """An operation, and its entry if the entry has been prepared."""

    operation: Operation
    prepared: Prepared | None = None
    """The entry of an ``Append`` with its tokens, ready to be stored."""


class InlineParser:
    """Parses in this process and does not prepare entries.

    Raises:
        UnreadableTranscript: while it is read, when nothing of the file can be read in this format.
        OSError: while it is read, when the file cannot be read.
    """

    def __init__(self, importer: Importer, source: Source) -> None:
        self._importer, self._source = importer, source

    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        return self._source.stream.tell()

    def __iter__(self) -> Iterator[ParsedOperation]:
        self._source.stream.seek(0)
        return map(ParsedOperation, with_time_limit(self._importer.read(self._source), self._source))


class ProcessParser:
    """Receives what another process parses and prepares. Raises the errors of :class:`InlineParser`."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.position = 0
        self.ended = False

    def __iter__(self) -> Iterator[ParsedOperation]:
        while True:
            try:
                message = marshal.loads(self._pipe.recv_bytes())  # noqa: S302 our own process wrote it
            except (EOFError, OSError):  # between messages, or within one
                raise UnreadableTranscript(ENDED) from None
            kind, self.position, content = message
            self.ended = kind != "batch"
            if kind == "error":
                raise pickle.loads(content)  # noqa: S301 our own process wrote it
            if self.ended:
                return
            yield from map(_load, content)


class ParserProcess:
    """A process that parses one file after another. It starts with the first and ends with the ``with``."""

    def __init__(self) -> None:
        self._running: tuple[SpawnProcess, Connection] | None = None

    def __enter__(self) -> "ParserProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextmanager
    def parse(self, importer: Importer, source: Source) -> Iterator[ProcessParser]:
        """A parser of the file. If the file is not read to its end, the next one gets a new process.

        Raises:
            OSError: when no process can be started.
        """
        parser = ProcessParser(self._request((importer.name, source.folder, source.name)))
        try:
            yield parser
        finally:
            if not parser.ended:
                self._stop()

    def _request(self, file: tuple[str, str, str]) -> Connection:
        """Sends the name of a file to the process; its answers come through the returned pipe."""
        if self._running:
            try:
                self._running[1].send(file)
                return self._running[1]
            except ConnectionError:  # it died since the last file
                self._stop()
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, pickle.dumps(serve_files)), daemon=True)
        try:
            process.start()
        except OSError:
            pipe.close()
            raise
        finally:
            theirs.close()
        self._running = process, pipe
        try:
            pipe.send(file)
        except ConnectionError:
            raise UnreadableTranscript(ENDED) from None
        return pipe

    def _stop(self) -> None:
        if self._running is not None:
            process, pipe = self._running
            self._running = None
            pipe.close()
            process.terminate()
            process.join()


def open_parser(
    importer: Importer, source: Source, *, process: ParserProcess | None = None
) -> AbstractContextManager[InlineParser | ProcessParser]:
    """A parser of the file from its start, in this process or in ``process``."""
    return process.parse(importer, source) if process else nullcontext(InlineParser(importer, source))


def relax_garbage_collection() -> None:
    """Collects garbage less often: an import makes many objects and hardly any cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def serve_files(pipe: Connection) -> None:
    """Runs in the other process: receives the names of files and sends back what they hold."""
    relax_garbage_collection()
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            while True:
                importer, folder, name = pipe.recv()
                _send_file(BatchSender(pipe, executor), IMPORTERS[importer], folder, name)
        except (EOFError, ConnectionError):
            return  # the other side has gone


class BatchSender:
    """Sends in a thread: a pipe accepts a message only while the other side receives."""

    def __init__(self, pipe: Connection, executor: Executor) -> None:
        self._pipe, self._executor = pipe, executor
        self._unsent: deque[tuple[Future[None], int]] = deque()

    def send(self, kind: str, position: int, content: Any = None) -> None:
        """Waits while too many bytes are unsent, and after the last message until all are sent.

        Raises:
            ConnectionError: when the other side has gone; for a batch perhaps only with the next message.
        """
        message = marshal.dumps((kind, position, content))
        self._unsent.append((self._executor.submit(self._pipe.send_bytes, message), len(message)))
        allowed = MOST_UNSENT if kind == "batch" else 0
        while self._unsent and (
            self._unsent[0][0].done() or sum(length for _, length in self._unsent) > allowed
        ):
            self._unsent.popleft()[0].result()


def _send_file(sender: BatchSender, importer: Importer, folder: str, name: str) -> None:
    try:
        with Path(folder, name).open("rb", buffering=BUFFER) as stream:
            source = Source(name, stream, folder)
            for batch in _batches(with_time_limit(importer.read(source), source)):
                sender.send("batch", stream.tell(), batch)
            sender.send("end", stream.tell())
    except ConnectionError:
        raise
    except (UnreadableTranscript, OSError) as error:
        sender.send("error", 0, pickle.dumps(error))


def _batches(operations: Iterator[Operation]) -> Iterator[list[Any]]:
    """Operations as they are sent, including those that precede an error."""
    batch, size = list[Any](), 0
    try:
        for operation in operations:
            dumped, length = _dump(operation)
            batch.append(dumped)
            size += length
            if len(batch) == BATCH or size >= BATCH_SIZE:
                yield batch
                batch, size = [], 0
    except (UnreadableTranscript, OSError):
        yield batch
        raise
    yield batch


def _dump(operation: Operation) -> tuple[Any, int]:
    """An operation as plain values (pickling models is slow), and its approximate size in bytes."""
    if not isinstance(operation, Append):
        pickled = pickle.dumps(operation)
        return pickled, len(pickled)
    draft = operation.draft
    created_at = draft.created_at.isoformat() if draft.created_at else None
    prepared = prepare(draft)
    entry = draft.body.kind, created_at, prepared.tokens, prepared.body, prepared.metadata
    return (operation.session, operation.provisional, *entry), prepared.size


def _load(dumped: Any) -> ParsedOperation:
    if isinstance(dumped, bytes):
        return ParsedOperation(pickle.loads(dumped))  # noqa: S301 our own process wrote it
    session, provisional, kind, created_at, tokens, body, metadata = dumped
    moment = datetime.fromisoformat(created_at) if created_at else None
    draft = EntryDraft(load_body(kind, load_dumped(body)), moment, load_dumped(metadata))
    return ParsedOperation(Append(session, draft, provisional), Prepared(draft, tokens, body, metadata))
