"""Reading a transcript: here, or in a process of its own beside the work of storing it.

A large file costs about as much to read, with its tokens counted, as to store, and Python does one thing at
a time. The other process hands over plain values in batches; a full pipe makes it wait, so neither process
holds more than a few batches whatever the file's size.
"""

import gc
import marshal
import multiprocessing
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from historyapp.core.entries import EntryDraft, dump_body, load_body
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Importer, Operation, Source
from historyapp.core.prepared import Prepared, prepare

BATCH = 1000
"""Operations handed over at once."""
BUFFER = 256 * 1024
"""Bytes of the file that are read at once."""
WORTH_A_PROCESS = 4 * 1024 * 1024
"""Bytes from which a file is read beside: starting the process takes most of a second."""


class Read(NamedTuple):
    """An operation and what was worked out about it already."""

    operation: Operation
    prepared: Prepared | None = None
    """The entry of an ``Append``, with its tokens, ready to be stored."""


class Reader(Protocol):
    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        ...

    def __iter__(self) -> Iterator[Read]:
        """The file's operations, in order.

        Raises:
            UnreadableTranscript: when nothing of the file can be read in this format.
            OSError: when the file cannot be read.
        """
        ...


class ReaderHere:
    """Reads in this process; entries are left to be prepared."""

    def __init__(self, importer: Importer, source: Source) -> None:
        self._importer, self._source = importer, source

    @property
    def position(self) -> int:
        return self._source.stream.tell()

    def __iter__(self) -> Iterator[Read]:
        self._source.stream.seek(0)
        return map(Read, self._importer.read(self._source))


class ReaderBeside:
    """Reads in another process, which prepares the entries too."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.position = 0

    def __iter__(self) -> Iterator[Read]:
        while True:
            try:
                message = marshal.loads(self._pipe.recv_bytes())  # noqa: S302 our own process wrote it
            except EOFError:
                raise UnreadableTranscript(
                    "The process that read the file has ended. Import it again."
                ) from None
            kind, self.position, content = message
            if kind == "end":
                return
            if kind == "error":
                raise pickle.loads(content)  # noqa: S301 our own process wrote it
            yield from map(_received, content)


@contextmanager
def open_reader(importer: Importer, source: Source, *, beside: bool = False) -> Iterator[Reader]:
    """A reader of the file from its start."""
    if not beside:
        yield ReaderHere(importer, source)
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    arguments = (theirs, importer.name, source.folder, source.name)
    process = context.Process(target=_tell, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        yield ReaderBeside(ours)
    finally:
        ours.close()
        process.terminate()
        process.join()


def collect_seldom() -> None:
    """Lets garbage be collected less often: records come by the thousand, and hardly any form cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


def _tell(pipe: Connection, importer: str, folder: str, name: str) -> None:
    """The other process: reads the file and tells what is in it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that stores
    collect_seldom()
    try:
        with Path(folder, name).open("rb", buffering=BUFFER) as stream:
            batch: list[Any] = []
            for operation in IMPORTERS[importer].read(Source(name, stream, folder)):
                batch.append(_to_send(operation))
                if len(batch) == BATCH:
                    pipe.send_bytes(marshal.dumps(("batch", stream.tell(), batch)))
                    batch = []
            pipe.send_bytes(marshal.dumps(("batch", stream.tell(), batch)))
            pipe.send_bytes(marshal.dumps(("end", stream.tell(), None)))
    except BrokenPipeError:
        return  # nobody wants to know the rest
    except (UnreadableTranscript, OSError) as error:
        pipe.send_bytes(marshal.dumps(("error", 0, pickle.dumps(error))))


def _to_send(operation: Operation) -> Any:
    """An operation as plain values: entries are most of them, and pickle is slow with models."""
    if not isinstance(operation, Append):
        return pickle.dumps(operation)
    draft = operation.draft
    created_at = draft.created_at.isoformat() if draft.created_at else None
    body, metadata = dump_body(draft.body), dict(draft.metadata)
    _, *stored = prepare(draft, body=body)
    return operation.session, draft.body.kind, body, created_at, metadata, operation.provisional, stored


def _received(sent: Any) -> Read:
    if isinstance(sent, bytes):
        return Read(pickle.loads(sent))  # noqa: S301 our own process wrote it
    session, kind, body, created_at, metadata, provisional, stored = sent
    moment = datetime.fromisoformat(created_at) if created_at else None
    draft = EntryDraft(load_body(kind, body), moment, metadata)
    return Read(Append(session, draft, provisional), Prepared(draft, *stored))
