"""Converts message lists and recorded model calls of any provider to operations.

Each recorded model call repeats its conversation. A file may have model calls of several conversations: a
call that begins with all messages of an earlier one continues it, and only its new messages are imported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from historyapp.core.entries import DebugLog, EntryDraft, SystemInstruction
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.messages import CallMatcher, title_of, with_source
from historyapp.core.importers.records import SourceRecord, records
from historyapp.core.json import depth_exceeds


@dataclass(frozen=True, slots=True)
class Exchange:
    """One model call, or a conversation without separate model calls."""

    messages: list[Any]
    """The messages of the conversation, without the instruction at its start."""
    offset: int = 0
    """The number of messages in the instruction."""
    index: int = 0
    """Its number in the file, from 1, or 0 if the file contains only this conversation."""
    instruction: str = ""
    reply: dict[str, Any] | None = None
    """The assistant message of the response."""
    reply_facts: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the reply, such as ``usage`` and ``cost``; its ids are in ``source``."""
    replied_at: datetime | None = None
    failure: str = ""
    """Why there is no reply."""
    session: str | None = None
    """The conversation's id, or None if the messages decide which conversation it continues."""
    title: str = ""
    agent: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class DialectReader(Protocol):
    """Reads the messages of one session, in order."""

    calls: CallMatcher

    def drafts(self, message: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of a message.

        Raises:
            ValueError: if the message is invalid. Its text becomes the reason of a skipped record.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one provider writes messages."""

    name: str
    reader: Callable[[str], DialectReader]
    """Makes the reader of a session with this id."""
    key: Callable[[dict[str, Any]], str]
    """Equal for a reply and its copy in the next request, even if their ids differ."""
    call_ids: Callable[[dict[str, Any]], list[Any]]
    """The ids of the tool calls in an assistant message."""


@dataclass(slots=True)
class _Thread:
    """A conversation that may be continued."""

    session: str
    reader: DialectReader
    hashes: list[int] = field(default_factory=list)
    """The hashes of its messages."""
    instruction: str = ""


def import_exchanges(
    exchanges: Iterable[Exchange | Skipped], dialect: Dialect, file: str
) -> Iterator[Operation]:
    """The operations of a file's exchanges. ``file`` is the id of the first conversation without one."""
    threads: list[_Thread] = []
    for exchange in exchanges:
        if isinstance(exchange, Skipped):
            yield exchange
            continue
        if exchange.session is not None:
            yield _start(exchange.session, exchange)
            thread = _Thread(exchange.session, dialect.reader(exchange.session))
            yield from _new_entries(thread, exchange, dialect.name)
            continue
        hashes = [_hash(dialect, message) for message in exchange.messages]
        continued = [
            thread for thread in threads if thread.hashes and hashes[: len(thread.hashes)] == thread.hashes
        ]
        if continued:
            thread = max(continued, key=lambda thread: len(thread.hashes))
            thread.reader.calls.replace_ids(dialect.call_ids(exchange.messages[len(thread.hashes) - 1]))
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
            in_exchange = f"message {number}: {reason}"
            yield Skipped(exchange.index, in_exchange) if exchange.index else Skipped(number, reason)
    if exchange.reply is not None:
        facts = dict(exchange.reply_facts)
        source = source | facts.pop("source", {})
        for draft in thread.reader.drafts(exchange.reply):
            draft = with_source(draft, source, exchange.replied_at)
            yield Append(session, draft._replace(metadata={**draft.metadata, **facts}))
            facts = {}  # only once, because usage and cost are of the whole reply
    elif exchange.failure:
        log = DebugLog(category="provider_error", message=exchange.failure)
        yield Append(session, EntryDraft(log, exchange.replied_at, {"source": source}))


def require_entries(operations: Iterable[Operation], source: Source, title: str) -> Iterator[Operation]:
    """Yields the operations.

    Raises:
        UnreadableTranscript: at the end, if there was no entry and all skipped records are damaged.
    """
    is_readable = False
    for operation in operations:
        is_readable = is_readable or isinstance(operation, Append)
        is_readable = is_readable or (isinstance(operation, Skipped) and not operation.damaged)
        yield operation
    if not is_readable:
        raise UnreadableTranscript(f"{source.name}: nothing in it can be read as {title}")
