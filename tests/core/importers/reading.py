"""Reads transcripts in tests, checks the rules that every importer keeps, and damages documents."""

import copy
import io
import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from historyapp.core.entries import (
    Body,
    DebugLog,
    ModelInput,
    ModelOutput,
    ToolResult,
    ToolResults,
    dump_body,
    load_body,
)
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    AddSummary,
    Append,
    Importer,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
    Source,
)
from historyapp.core.json import MAX_DEPTH, depth_exceeds, dump_json


def source(data: Any, name: str = "run.json", folder: str = "") -> Source:
    """A file that contains ``data``: bytes and text unchanged, other values as JSON."""
    text = data if isinstance(data, (str, bytes)) else json.dumps(data)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return Source(name, io.BytesIO(raw), folder)


def lines(*records: Any) -> str:
    return "\n".join(json.dumps(record) for record in records)


def read(importer: Importer, data: Any, name: str = "run.json", folder: str = "") -> list[Operation]:
    """Reads a file. Checks the rules that every importer keeps."""
    operations = list(importer.read(source(data, name, folder)))
    check(operations, importer.name)
    return operations


def read_path(importer: Importer, path: Path) -> list[Operation]:
    with path.open("rb") as stream:
        operations = list(importer.read(Source(path.name, stream, str(path.parent))))
    check(operations, importer.name)
    return operations


def bodies(operations: Iterable[Operation]) -> list[Body]:
    return [op.draft.body for op in operations if isinstance(op, Append)]


def outputs(operations: Iterable[Operation]) -> list[ModelOutput]:
    return [body for body in bodies(operations) if isinstance(body, ModelOutput)]


def inputs(operations: Iterable[Operation]) -> list[ModelInput]:
    return [body for body in bodies(operations) if isinstance(body, ModelInput)]


def logs(operations: Iterable[Operation]) -> list[DebugLog]:
    return [body for body in bodies(operations) if isinstance(body, DebugLog)]


def results(operations: Iterable[Operation]) -> list[ToolResult]:
    return [result for body in bodies(operations) if isinstance(body, ToolResults) for result in body.results]


def kinds(operations: Iterable[Operation]) -> list[str]:
    return [body.kind for body in bodies(operations)]


def skipped(operations: Iterable[Operation]) -> list[Skipped]:
    return [op for op in operations if isinstance(op, Skipped)]


def starts(operations: Iterable[Operation]) -> list[SessionStart]:
    return [op for op in operations if isinstance(op, SessionStart)]


def metadata(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    return [dict(op.draft.metadata) for op in operations if isinstance(op, Append)]


def calls_in(operations: Iterable[Operation]) -> int:
    """Actions of every kind: provider calls, and actions written as text."""
    return sum(len(output.tool_calls) or bool(output.use_tool) for output in outputs(operations))


def check(operations: Iterable[Operation], format: str) -> None:
    """Checks rules for the operations of every importer, also for broken files."""
    called: dict[str, set[str | None]] = defaultdict(set)
    for operation in operations:
        match operation:
            case SessionStart(session=session, title=title):
                assert session
                assert session not in called
                assert len(title) <= 80 or format == "playhead_jsonl"
                dump_json(dict(operation.metadata))
                called[session] = set()
            case Append(session=session, draft=draft):
                assert session in called
                _check_entry(draft.body)
                if isinstance(draft.body, ModelOutput) and format != "playhead_jsonl":
                    ids = [call.id for call in draft.body.tool_calls]
                    assert all(ids)
                    assert len(set(ids)) == len(ids)
                dump_json(dict(draft.metadata))
                assert draft.created_at is None or draft.created_at.utcoffset() == timedelta(0)
                if format != "playhead_jsonl":
                    assert draft.metadata["source"]["format"] == format
                if "usage" in draft.metadata and format != "playhead_jsonl":
                    assert isinstance(draft.body, ModelOutput)
                    assert draft.metadata["usage_convention"] in ("openai", "anthropic", "gemini")
                if isinstance(draft.body, ModelOutput):
                    called[session] |= {call.id for call in draft.body.tool_calls}
            case RewindTo(session=session) | AddSummary(session=session):
                assert session in called
            case Skipped(line=line, reason=reason):
                assert line >= 1
                assert reason


def _check_entry(body: Body) -> None:
    stored = dump_body(body)
    assert not depth_exceeds(stored, MAX_DEPTH)
    assert load_body(body.kind, json.loads(dump_json(stored))) == body


RUBBISH: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, False, 0, -1, 7, 1e99, 10**30, "", "x", "\ud800\x00", "system", "user", "assistant",
        "```bash\nls\n```", "<function=f><parameter=a>1</parameter></function>", "2026-01-01T00:00:00",
        [], {}, [None], [[]], ["x"], {"type": "text"}, [{"type": "text", "text": 3}], {"role": "user"},
        {"content": {}}, {"a": {"b": [1, {"c": None}]}},
    ]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with up to five values, anywhere in it, replaced by rubbish, removed or doubled."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 5))):
        holder, key = _place(draw, document)
        if holder is None:
            return copy.deepcopy(draw(RUBBISH))
        match draw(st.sampled_from(["replace", "remove", "double"])):
            case "replace":
                holder[key] = copy.deepcopy(draw(RUBBISH))
            case "remove":
                del holder[key]
            case "double" if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
    return document


def _place(draw: st.DrawFn, document: Any) -> tuple[Any, Any]:
    """A list or object somewhere in the document, and a key in it."""
    holder, key = None, None
    at = document
    while isinstance(at, (list, dict)) and at:
        holder = at
        key = draw(st.sampled_from(range(len(at)) if isinstance(at, list) else sorted(at)))
        at = holder[key]
        if draw(st.integers(0, 3)) == 0:
            break
    return holder, key


def check_survival(importer: Importer, data: Any, name: str = "run.json") -> None:
    """Checks that the importer reads what it can, or raises ``UnreadableTranscript`` and no other error."""
    operations: list[Operation] = []
    with suppress(UnreadableTranscript):
        operations.extend(importer.read(source(data, name)))
    check(operations, importer.name)
