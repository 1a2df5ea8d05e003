"""Message lists and recorded model calls, in any provider's dialect, as operations.

Each recorded call repeats its whole conversation so far. Calls of several conversations may share a file: one
that begins with all messages of another one continues it, and only its new messages are imported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from historyapp.core.entries import DebugLog, EntryDraft, SystemInstruction
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.messages import Calls, title_of, with_source
from historyapp.core.importers.records import SourceRecord, records
from historyapp.core.json import depth_exceeds


@dataclass(frozen=True, slots=True)
class Exchange:
    """One model call, or a whole conversation where the calls were not recorded one by one."""

    messages: list[Any]
    """The conversation so far, without the instruction at its head."""
    offset: int = 0
    """How many messages the instruction took."""
    index: int = 0
    """Its place in the file, from 1; 0 if the file is nothing but this conversation."""
    instruction: str = ""
    reply: dict[str, Any] | None = None
    """The assistant message that came back, in the dialect."""
    reply_facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the reply: ``usage``, ``cost`` … and under ``source`` its ids."""
    replied_at: datetime | None = None
    failure: str = ""
    """Why there is no reply."""
    session: str | None = None
    """The conversation's id; None when the conversation that it continues decides."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class DialectReader(Protocol):
    """Reads the messages of one session, in order."""

    calls: Calls

    def drafts(self, message: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of a message.

        Raises:
            ValueError: when the message cannot be understood; the reason is for people.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one provider writes messages."""

    name: str
    reader: Callable[[str], DialectReader]
    """Of the session with this id."""
    key: Callable[[dict[str, Any]], str]
    """The same for a reply and for its repetition in the next request, whatever ids these have."""
    call_ids: Callable[[dict[str, Any]], list[Any]]
    """The ids of an assistant message's calls."""


@dataclass(slots=True)
class _Thread:
    """A conversation that may be continued."""

    session: str
    reader: DialectReader
    hashes: list[int] = field(default_factory=list)
    """Of its messages so far."""
    instruction: str = ""


def import_exchanges(
    exchanges: Iterable[Exchange | Skipped], dialect: Dialect, file: str
) -> Iterator[Operation]:
    """The operations for a file's exchanges. ``file`` is the id of the first conversation without a name."""
    threads: list[_Thread] = []
    for exchange in exchanges:
        if isinstance(exchange, Skipped):
            yield exchange
            continue
        if exchange.session is not None:
            yield _start(exchange.session, exchange)
            alone = _Thread(exchange.session, dialect.reader(exchange.session))
            yield from _new_entries(alone, exchange, dialect.name)
            continue
        hashes = [_hash(dialect, message) for message in exchange.messages]
        continued = [
            thread for thread in threads if thread.hashes and hashes[: len(thread.hashes)] == thread.hashes
        ]
        if continued:
            thread = max(continued, key=lambda thread: len(thread.hashes))
            thread.reader.calls.relabel(dialect.call_ids(exchange.messages[len(thread.hashes) - 1]))
        else:
            session = f"{file}#{len(threads) + 1}" if threads else file
            thread = _Thread(session, dialect.reader(session))
            threads.append(thread)
            yield _start(session, exchange)
        yield from _new_entries(thread, exchange, dialect.name)
        thread.hashes = hashes + ([_hash(dialect, exchange.reply)] if exchange.reply else [])


def _hash(dialect: Dialect, message: Any) -> int:
    return hash(dialect.key(message)) if isinstance(message, dict) and not depth_exceeds(message) else 0


def _start(session: str, exchange: Exchange) -> SessionStart:
    task = next((m for m in exchange.messages if isinstance(m, dict) and m.get("role") == "user"), {})
    return SessionStart(
        session,
        title=exchange.title or title_of(task.get("content")),
        agent=exchange.agent,
        model=exchange.model,
        tags=exchange.tags,
        metadata=exchange.metadata,
    )


def _new_entries(thread: _Thread, exchange: Exchange, format: str) -> Iterator[Operation]:
    session, source = thread.session, dict[str, Any](format=format)
    if exchange.index:
        source["index"] = exchange.index
    if exchange.instruction and exchange.instruction != thread.instruction:
        thread.instruction = exchange.instruction
        body = SystemInstruction(text=exchange.instruction)
        yield Append(session, EntryDraft(body, metadata={"source": source}))
    name = "message" if exchange.index else "index"
    for record in records(exchange.messages):
        number, reason = (record.line, record.reason) if isinstance(record, Skipped) else (record.number, "")
        if number <= len(thread.hashes):
            continue
        number += exchange.offset
        if isinstance(record, SourceRecord):
            try:
                for draft in thread.reader.drafts(record.data):
                    yield Append(session, with_source(draft, source | {name: number}))
            except ValueError as fault:
                reason = str(fault)
        if reason:
            in_call = f"message {number}: {reason}"
            yield Skipped(exchange.index, in_call) if exchange.index else Skipped(number, reason)
    if exchange.reply is not None:
        facts = dict(exchange.reply_facts)
        source = source | facts.pop("source", {})
        for draft in thread.reader.drafts(exchange.reply):
            placed = with_source(draft, source, exchange.replied_at)
            yield Append(session, placed._replace(metadata={**placed.metadata, **facts}))
            facts = {}  # usage and cost are of the whole reply: once
    elif exchange.failure:
        log = DebugLog(category="provider_error", message=exchange.failure)
        yield Append(session, EntryDraft(log, exchange.replied_at, {"source": source}))


def require_entries(operations: Iterable[Operation], source: Source, title: str) -> Iterator[Operation]:
    """Passes the operations through.

    Raises:
        UnreadableTranscript: at the end, if there was no entry and nothing was skipped intentionally.
    """
    useful = False
    for operation in operations:
        useful = useful or isinstance(operation, Append)
        useful = useful or (isinstance(operation, Skipped) and not operation.damaged)
        yield operation
    if not useful:
        raise UnreadableTranscript(f"{source.name}: nothing in it can be read as {title}")
