"""Functions for tests that read the operations of an importer."""

import io
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from typing import Any

from historyapp.core.entries import ModelOutput, ToolResult, ToolResults
from historyapp.core.importers.base import Append, Importer, Operation, RewindTo, SessionStart, Source
from historyapp.core.json import dump_json


def bodies(operations: list[Operation], session: str | None = None) -> list[Any]:
    """The entries of one session, by default of the first."""
    session = session or next(iter(starts(operations)), None)
    return [op.draft.body for op in operations if isinstance(op, Append) and op.session == session]


def outputs(operations: list[Operation]) -> list[ModelOutput]:
    return [body for body in bodies(operations) if isinstance(body, ModelOutput)]


def results(operations: list[Operation]) -> list[ToolResult]:
    return [result for body in bodies(operations) if isinstance(body, ToolResults) for result in body.results]


def starts(operations: list[Operation]) -> dict[str, SessionStart]:
    return {op.session: op for op in operations if isinstance(op, SessionStart)}


def rewinds(operations: list[Operation]) -> list[tuple[int, int]]:
    """Each rewind's own position in the session, and where it goes back to."""
    positions: Counter[str] = Counter()
    targets = []
    for op in operations:
        if isinstance(op, (Append, RewindTo)):
            positions[op.session] += 1
        if isinstance(op, RewindTo):
            targets.append((positions[op.session], op.to_position))
    return targets


def live(operations: list[Operation]) -> list[Any]:
    """The entries that are live at the end of a single session, after its rewinds."""
    log: list[list[Any]] = [[]]
    for op in operations:
        if isinstance(op, Append):
            log.append([*log[-1], op.draft.body])
        elif isinstance(op, RewindTo):
            log.append(log[op.to_position])
    return log[-1]


def metadata(operations: list[Operation]) -> list[dict[str, Any]]:
    return [dict(op.draft.metadata) for op in operations if isinstance(op, Append)]


def check(operations: Iterable[Operation]) -> Counter[str]:
    """Checks rules for any file and any reading. Returns the number of calls and results."""
    announced: set[str] = set()
    positions: Counter[str] = Counter()
    called: set[tuple[str, str | None]] = set()
    count: Counter[str] = Counter()
    for op in operations:
        if isinstance(op, SessionStart):
            assert op.session not in announced
            announced.add(op.session)
        elif isinstance(op, RewindTo):
            assert 0 <= op.to_position <= positions[op.session]
        if isinstance(op, (Append, RewindTo)):
            assert op.session in announced
            positions[op.session] += 1
        if not isinstance(op, Append):
            continue
        body = op.draft.body
        dump_json([body.model_dump(), dict(op.draft.metadata)])
        if isinstance(body, ModelOutput):
            ids = [c.id for c in body.tool_calls]
            assert len(set(ids)) == len(ids)
            assert all(ids)
            called |= {(op.session, id) for id in ids}
            count["calls"] += len(ids)
        elif isinstance(body, ToolResults):
            count["results"] += len(body.results)
            count["paired"] += sum((op.session, result.tool_call_id) in called for result in body.results)
    return count


def peak_memory(importer: Importer, raw: bytes) -> int:
    """Bytes that reading took at most, without the file itself."""
    source = Source("x.jsonl", io.BytesIO(raw))
    tracemalloc.start()
    try:
        for _ in importer.read(source):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
