"""OpenHands conversations, V0 and V1: events in one file, in a folder of files, or in rows of an evaluation.

A folder of files has one file for each event (``events/0.json``, ``events/event-00000-….json``). The first
file is read with all others as one session; importing another one skips its event.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from historyapp.core.entries import DebugLog, EntryDraft
from historyapp.core.importers import openhands_v0 as v0
from historyapp.core.importers import openhands_v1 as v1
from historyapp.core.importers.base import Append, Head, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.messages import session_of, title_of, with_source
from historyapp.core.importers.records import (
    SourceRecord,
    head_of,
    parse_document,
    present_fields,
    read_lines,
    records,
)
from historyapp.core.json import listing, mapping, text

_PREAMBLE = 200
"""The number of events that are read for the title and model of the session."""
_NUMBER = re.compile(r"(?:event-)?(\d+)")

_ROW_FACTS = (
    "instance_id", "issue", "test_result", "success", "result_explanation", "git_patch", "metrics"
)  # fmt: skip
"""Fields of an evaluation's row that become metadata of its session."""

Events = Iterator[SourceRecord | Skipped]


class _OpenHands:
    name = "openhands"
    title = "OpenHands conversation"

    def recognises(self, head: Head) -> bool:
        items = [*listing(head.document)[:5], head.document, *head.lines[:5]]
        return any(
            v1.is_event(item) or v0.is_event(item) or _is_row(item) or _is_state(item)
            for item in map(mapping, items)
        )

    def read(self, source: Source) -> Iterator[Operation]:
        yield from require_entries(_operations(source), source, self.title)


OPENHANDS = _OpenHands()


def _is_row(record: dict[str, Any]) -> bool:
    """Whether the record is a run of an evaluation (``output.jsonl``)."""
    if record.keys().isdisjoint(("instance_id", "instruction", "issue")):
        return False
    events = map(mapping, _flatten(listing(record.get("history"))[:5]))
    # The earliest versions had no ``args`` and no ``extras``.
    names = ("action", "observation")
    return any(
        v1.is_event(event) or v0.is_event(event) or any(isinstance(event.get(n), str) for n in names)
        for event in events
    )


def _is_state(record: dict[str, Any]) -> bool:
    """Whether the record is a conversation's ``base_state.json``, which has no events."""
    return {"agent", "workspace", "execution_status"} <= set(record)


def _operations(source: Source) -> Iterator[Operation]:
    head = head_of(source)
    first = next(
        (mapping(item) for item in (*listing(head.document)[:1], head.document, *head.lines) if item), {}
    )
    if _is_state(first):
        yield Skipped(1, "the state of a conversation; its events are in other files", damaged=False)
    elif _is_row(first):
        yield from _rows(source, head)
    elif isinstance(head.document, dict):
        yield from _event_file(source, head.document)
    elif head.document is not None:
        events = list(records(listing(head.document)))
        yield from _conversation(session_of(source), events[:_PREAMBLE], iter(events))
    else:
        beginning = list(islice(read_lines(source.stream), _PREAMBLE))
        yield from _conversation(session_of(source), beginning, read_lines(source.stream))


def _flatten(history: list[Any]) -> Iterator[Any]:
    """The events of a row. Early versions have pairs of an action and its observation."""
    for item in history:
        yield from item if isinstance(item, list) else [item]


def _rows(source: Source, head: Head) -> Iterator[Operation]:
    rows = read_lines(source.stream)
    if head.document is not None:
        rows = records(listing(head.document) or [head.document])
    session_ids: set[str] = set()
    for row in rows:
        if isinstance(row, Skipped):
            yield row
            continue
        events = list(records(_flatten(listing(row.data.get("history")))))
        id = row.data.get("instance_id")
        session = f"{session_of(source)}#{row.number if id in (None, '', [], {}) else id}"
        session = f"{session_of(source)}#{row.number}" if session in session_ids else session
        session_ids.add(session)
        yield from _conversation(session, events[:_PREAMBLE], iter(events), row)


def _event_file(source: Source, event: dict[str, Any]) -> Iterator[Operation]:
    files = _event_files(source)
    if not files:
        yield from _conversation(session_of(source), [SourceRecord(1, event)], iter([SourceRecord(1, event)]))
    elif files[0].name != session_of(source):
        yield Skipped(1, f"one event of a conversation; it is imported with {files[0].name}", damaged=False)
    else:
        folder = Path(source.folder)
        session = folder.parent.name if folder.name == "events" else folder.name
        beginning = list(_event_records(files[:_PREAMBLE]))
        yield from _conversation(session, beginning, _event_records(files))


def _event_files(source: Source) -> list[Path]:
    """The event files in the folder by number, or none if the file is a whole conversation."""
    if not source.folder or not _NUMBER.match(session_of(source)):
        return []
    numbered = [
        (match, path) for path in Path(source.folder).glob("*.json") if (match := _NUMBER.match(path.name))
    ]
    return [path for _, path in sorted(numbered, key=lambda pair: (int(pair[0][1]), pair[1].name))]


def _event_records(files: list[Path]) -> Events:
    for number, path in enumerate(files, start=1):
        try:
            event = parse_document(path.read_bytes())
        except (ValueError, OSError) as fault:
            yield Skipped(number, f"{path.name}: {fault}")
            continue
        for record in records([event]):
            if isinstance(record, SourceRecord):
                yield SourceRecord(number, record.data)
            else:
                yield Skipped(number, f"{path.name}: {record.reason}")


def _conversation(
    session: str, beginning: list[SourceRecord | Skipped], events: Events, row: SourceRecord | None = None
) -> Iterator[Operation]:
    known_events = [event.data for event in beginning if isinstance(event, SourceRecord)]
    reader: v0.V0EventReader | v1.V1EventReader
    if any(v1.is_event(event) for event in known_events):
        facts = v1.facts_of(known_events)
        session = facts.get("id") or session
        reader = v1.V1EventReader(session)
    else:
        facts = v0.facts_of(known_events)
        reader = v0.V0EventReader(session, v0.zone_of(known_events))
    data = row.data if row else {}
    metadata = mapping(data.get("metadata"))
    yield SessionStart(
        session,
        facts.get("title") or title_of(text(data.get("instruction"))),
        text(metadata.get("agent_class")) or "OpenHands",
        text(mapping(metadata.get("llm_config")).get("model")) or facts.get("model", ""),
        metadata=present_fields(**{name: data.get(name) for name in _ROW_FACTS}),
    )
    source = {"format": OPENHANDS.name} | ({"row": row.number} if row else {})
    for event in events:
        if isinstance(event, Skipped):
            yield event if row is None else Skipped(row.number, f"event {event.line}: {event.reason}")
        else:
            for draft in reader.drafts(event.data):
                yield Append(session, with_source(draft, {**source, "index": event.number}))
    if isinstance(reader, v1.V1EventReader):
        for draft in reader.last_output():
            yield Append(session, with_source(draft, source), provisional=True)
    if row and (error := text(row.data.get("error"))):
        yield Append(session, with_source(EntryDraft(DebugLog(category="error", message=error)), source))
