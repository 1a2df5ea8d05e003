"""Sessions in memory for tests: entries written by hand, at random, or read by an importer."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from historyapp.core.entries import BODIES as BODIES_OF_KINDS
from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    ErrorDetails,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    Rewind,
    SystemInstruction,
    Thoughts,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
    load_body,
)
from historyapp.core.importers.base import Append, Operation

KINDS = {body.kind_name(): body for body in BODIES_OF_KINDS}
START = datetime(2026, 1, 1, tzinfo=UTC)


def entry(position: int, body: Body, **metadata: Any) -> Entry:
    return Entry(position, body, START + timedelta(microseconds=position), metadata)


def sample(kind: str, text: str = "x") -> Body:
    """An entry's body of a kind. For a kind that is not known here, all required fields are texts."""
    required = [name for name, field in KINDS[kind].model_fields.items() if field.is_required()]
    odd: dict[str, dict[str, Any]] = {
        "tool_results": {"results": [{"status": "success", "outputs": text}]},
        "rewind": {"to_position": 0, "spans": []},
    }
    return load_body(kind, odd.get(kind, dict.fromkeys(required, text)))


def session(*bodies: Body) -> list[Entry]:
    """Entries at the positions from 1."""
    return [entry(position, body) for position, body in enumerate(bodies, start=1)]


def session_of(operations: Iterable[Operation]) -> list[Entry]:
    """The entries that an importer found in a file, as one session without its rewinds."""
    return session(*(op.draft.body for op in operations if isinstance(op, Append)))


def calls(*ids: str, name: str = "look", **fields: Any) -> ModelOutput:
    return ModelOutput(tool_calls=tuple(ToolCall(id=id, name=name) for id in ids), **fields)


def result(id: str | None = None, outputs: Any = "here", **fields: Any) -> ToolResults:
    values = {"status": "success", "outputs": outputs, **fields}
    return ToolResults(results=(ToolResult(tool_call_id=id, **values),))


_WRITTEN = st.text(st.characters(), max_size=6)
_ODD = st.sampled_from(["", " \n", "```", "\ud800", "\x00", "<b>", "a  "])
TEXT = (_WRITTEN | _ODD).map(lambda text: str(json.loads(json.dumps(text))))
"""Any text that JSON can hold: it takes two surrogates beside each other for one character."""
IDS = st.sampled_from(["a", "b", "", "toolu_01", "ä/ö", "x" * 50, "x" * 90, "call_1_1"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": " "},
            {"type": "text", "text": "see"},
            {"type": "image", "url": "https://x.test/a.png"},
            {"type": "image", "media_type": "image/png", "data": "AA"},
            {"type": "document", "source": {}},
            {"type": "file", "file": {}},
            {"type": "web_search_result", "url": "u"},
        ]
    ),
    max_size=3,
)
REASONING = st.lists(
    st.sampled_from(
        [
            {"type": "thinking", "thinking": "hm", "signature": "S"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "reasoning", "encrypted_content": "x"},
            "odd",
        ]
    ),
    max_size=2,
)
ERRORS = st.none() | st.builds(
    ErrorDetails, args=st.lists(JSON, max_size=1), message=TEXT, exception_type=TEXT, repr=TEXT
)
RESULTS = st.builds(
    ToolResult,
    tool_call_id=st.none() | IDS,
    tool_name=st.none() | TEXT,
    status=st.sampled_from(["success", "error", "skipped", "interrupted_by_human"]),
    outputs=JSON | PARTS,
    reason=st.none() | TEXT,
    error=ERRORS,
    feedback=st.none() | TEXT,
)
OUTPUTS = st.builds(
    ModelOutput,
    thoughts=st.none() | TEXT | st.builds(Thoughts, summary=TEXT, plan=JSON),
    text=TEXT,
    tool_calls=st.lists(st.builds(ToolCall, id=IDS, name=TEXT, arguments=JSON), max_size=3).map(tuple),
    use_tool=st.none() | st.builds(UseTool, name=TEXT, arguments=st.dictionaries(TEXT, JSON, max_size=2)),
    reasoning=REASONING,
    raw_message=st.none()
    | st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT | st.none()}),
)
BODIES: st.SearchStrategy[Body] = st.one_of(
    st.builds(SystemInstruction, text=TEXT),
    st.builds(MemoryNotebook, content=TEXT),
    st.builds(
        ModelInput, channel=st.sampled_from(["user", "system", "environment"]) | TEXT, content=JSON | PARTS
    ),
    OUTPUTS,
    OUTPUTS,
    st.builds(
        ToolResults, overall=st.none() | TEXT, results=st.lists(RESULTS, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(
        Review,
        analysis=JSON,
        supervision=JSON,
        score=st.none() | st.floats(0, 1),
        passed=st.none() | st.booleans(),
    ),
    st.builds(DebugLog, category=TEXT, message=TEXT),
)
LIVE: st.SearchStrategy[list[Entry]] = st.lists(BODIES, max_size=12).map(lambda bodies: session(*bodies))
"""Live entries of a session, in any order that agents may ever write them."""


@st.composite
def logs(draw: st.DrawFn, id: str = "s", first: int = 1) -> list[Entry]:
    """Everything that was appended to a session, rewinds included."""
    entries: list[Entry] = []
    for position in range(first, first + draw(st.integers(0, 8))):
        back = st.builds(
            Rewind,
            to_position=st.integers(0, position - 1),
            spans=st.just(((id, first, max(first, position - 1)),)),
            reason=st.none() | TEXT,
            actor=st.none() | TEXT,
        )
        body = draw(BODIES | back)
        entries.append(entry(position, body, **draw(st.dictionaries(st.just("usage"), JSON, max_size=1))))
    return entries
