"""Reading a transcript: here, or in a process of its own beside the work of storing it.

A large file costs about as much to read, with its tokens counted, as to store, and Python does one thing at
a time. The other process hands over plain values in batches and waits where too much of them is unsent, so
that neither holds more than a few batches whatever the file's size.
"""

import gc
import marshal
import multiprocessing
import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from historyapp.core.entries import EntryDraft, load_body
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Importer, Operation, Source
from historyapp.core.json import load_dumped
from historyapp.core.prepared import Prepared, prepare
from historyapp.services.imports.parser_process import serve

BATCH = 250
"""Operations handed over at once, at most."""
BATCH_SIZE = 2 * 1024 * 1024
"""Bytes from which a batch is handed over, however few operations it has."""
MOST_UNSENT = 8 * 1024 * 1024
"""Bytes that may wait for the process that stores, which now takes much at once and now nothing."""
BUFFER = 256 * 1024
"""Bytes of the file that are read at once."""
PROCESS_MIN_SIZE = 16 * 1024 * 1024
"""Bytes from which a file is read beside: the process takes a while to start and to fill its first batch."""


class ParsedOperation(NamedTuple):
    """An operation and what was worked out about it already."""

    operation: Operation
    prepared: Prepared | None = None
    """The entry of an ``Append``, with its tokens, ready to be stored."""


class TranscriptParser(Protocol):
    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        ...

    def __iter__(self) -> Iterator[ParsedOperation]:
        """The file's operations, in order.

        Raises:
            UnreadableTranscript: when nothing of the file can be read in this format.
            OSError: when the file cannot be read.
        """
        ...


class InlineParser:
    """Reads in this process; entries are left to be prepared."""

    def __init__(self, importer: Importer, source: Source) -> None:
        self._importer, self._source = importer, source

    @property
    def position(self) -> int:
        return self._source.stream.tell()

    def __iter__(self) -> Iterator[ParsedOperation]:
        self._source.stream.seek(0)
        return map(ParsedOperation, self._importer.read(self._source))


class ProcessParser:
    """Reads in another process, which prepares the entries too."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.position = 0
        self.ended = False

    def __iter__(self) -> Iterator[ParsedOperation]:
        while True:
            try:
                message = marshal.loads(self._pipe.recv_bytes())  # noqa: S302 our own process wrote it
            except (EOFError, OSError):  # between messages, or within one
                raise _died() from None
            kind, self.position, content = message
            self.ended = kind != "batch"
            if kind == "error":
                raise pickle.loads(content)  # noqa: S301 our own process wrote it
            if self.ended:
                return
            yield from map(_received, content)


class ParserProcess:
    """A process that reads files, one after another. It starts with the first, and ends with the ``with``."""

    def __init__(self) -> None:
        self._running: tuple[SpawnProcess, Connection] | None = None

    def __enter__(self) -> "ParserProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextmanager
    def read(self, importer: Importer, source: Source) -> Iterator[ProcessParser]:
        """A reader of the file. Where it is not read to its end, the process starts anew for the next.

        Raises:
            OSError: when no process can be started.
        """
        reader = ProcessParser(self._ask((importer.name, source.folder, source.name)))
        try:
            yield reader
        finally:
            if not reader.ended:
                self._stop()

    def _ask(self, file: tuple[str, str, str]) -> Connection:
        """Tells the process which file to read, through the pipe that its answers will come by."""
        if self._running:
            try:
                self._running[1].send(file)
                return self._running[1]
            except ConnectionError:  # it died since the last file
                self._stop()
        self._running = _start()
        try:
            self._running[1].send(file)
        except ConnectionError:
            raise _died() from None
        return self._running[1]

    def _stop(self) -> None:
        if self._running is None:
            return
        process, pipe = self._running
        self._running = None
        pipe.close()
        process.terminate()
        process.join()


def _start() -> tuple[SpawnProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    try:
        process.start()
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def _died() -> UnreadableTranscript:
    return UnreadableTranscript("The process that read the file has ended. Import it again.")


@contextmanager
def open_parser(
    importer: Importer, source: Source, *, beside: ParserProcess | None = None
) -> Iterator[TranscriptParser]:
    """A reader of the file from its start, in this process or ``beside``."""
    if beside is None:
        yield InlineParser(importer, source)
        return
    with beside.read(importer, source) as reader:
        yield reader


def relax_garbage_collection() -> None:
    """Lets garbage be collected less often: records come by the thousand, and hardly any form cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def serve_files(pipe: Connection) -> None:
    """The other process: is told one file after another, reads it and sends what is in it."""
    relax_garbage_collection()
    with ThreadPoolExecutor(max_workers=1) as executor:
        try:
            while True:
                importer, folder, name = pipe.recv()
                _serve(BatchSender(pipe, executor), IMPORTERS[importer], folder, name)
        except (EOFError, ConnectionError):
            return  # nobody wants to know the rest


class BatchSender:
    """Sends in a thread: a pipe takes a message only while the other side has time to receive it."""

    def __init__(self, pipe: Connection, executor: Executor) -> None:
        self._pipe, self._executor = pipe, executor
        self._unsent: deque[tuple[Future[None], int]] = deque()

    def send(self, kind: str, position: int, content: Any = None) -> None:
        """Waits where too much is unsent, and after the last message until all is sent.

        Raises:
            ConnectionError: when nobody is there to receive; after a batch perhaps only with the next one.
        """
        message = marshal.dumps((kind, position, content))
        self._unsent.append((self._executor.submit(self._pipe.send_bytes, message), len(message)))
        allowed = MOST_UNSENT if kind == "batch" else 0
        while self._unsent and (self._unsent[0][0].done() or self._size > allowed):
            self._unsent.popleft()[0].result()

    @property
    def _size(self) -> int:
        return sum(length for _, length in self._unsent)


def _serve(sender: BatchSender, importer: Importer, folder: str, name: str) -> None:
    try:
        with Path(folder, name).open("rb", buffering=BUFFER) as stream:
            for batch in _batches(importer.read(Source(name, stream, folder))):
                sender.send("batch", stream.tell(), batch)
            sender.send("end", stream.tell())
    except ConnectionError:
        raise
    except (UnreadableTranscript, OSError) as error:
        sender.send("error", 0, pickle.dumps(error))


def _batches(operations: Iterator[Operation]) -> Iterator[list[Any]]:
    """Operations as they are sent. What comes before an error is not lost."""
    batch, size = list[Any](), 0
    try:
        for operation in operations:
            sent, length = _to_send(operation)
            batch.append(sent)
            size += length
            if len(batch) == BATCH or size >= BATCH_SIZE:
                yield batch
                batch, size = [], 0
    except (UnreadableTranscript, OSError):
        yield batch
        raise
    yield batch


def _to_send(operation: Operation) -> tuple[Any, int]:
    """An operation as plain values, since pickle is slow with models, and about how many bytes it has."""
    if not isinstance(operation, Append):
        pickled = pickle.dumps(operation)
        return pickled, len(pickled)
    draft = operation.draft
    created_at = draft.created_at.isoformat() if draft.created_at else None
    prepared = prepare(draft)
    entry = draft.body.kind, created_at, prepared.tokens, prepared.body, prepared.metadata
    return (operation.session, operation.provisional, *entry), prepared.size


def _received(sent: Any) -> ParsedOperation:
    if isinstance(sent, bytes):
        return ParsedOperation(pickle.loads(sent))  # noqa: S301 our own process wrote it
    session, provisional, kind, created_at, tokens, body, metadata = sent
    moment = datetime.fromisoformat(created_at) if created_at else None
    draft = EntryDraft(load_body(kind, load_dumped(body)), moment, load_dumped(metadata))
    return ParsedOperation(Append(session, draft, provisional), Prepared(draft, tokens, body, metadata))
