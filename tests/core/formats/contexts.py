"""Contexts at random: messages in any order that a policy may ever hand over, however torn."""

from typing import Any

from hypothesis import strategies as st

from historyapp.core.manifest import Context, Manifest, Message
from tests.core.entries import IDS, JSON, PARTS, TEXT

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB+w=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwK"}
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGES = st.sampled_from(
    [
        {"type": "image", "media_type": "image/png", "data": TINY_PNG},
        {"type": "image", "media_type": "image/svg+xml", "data": "PHN2Zz4="},
        {"type": "image", "media_type": "image/png"},
        {"type": "image", "media_type": "image/png", "data": "no base64!"},
        {"type": "image", "url": "http://x.test/a.png"},
        {"type": "image", "url": f"data:image/png;base64,{TINY_PNG}"},
        {"type": "image", "url": "file:///etc/passwd"},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "notes"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
)
REASONING = st.lists(
    st.sampled_from(
        [
            SIGNED,
            REDACTED,
            ENCRYPTED,
            "odd",
            {"type": ["odd"]},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "thinking", "thinking": "\ud800", "signature": "S"},
            {"type": "redacted_thinking", "data": ""},
            {"type": "reasoning", "id": "rs_2"},
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        ]
    ),
    max_size=3,
)
ARGUMENTS = JSON | st.sampled_from(
    ["", "{}", '{"a":1}', "[1]", "not json", '{"a":NaN}', "[" * 2000, '{"a":"\\ud800"}']
)
CALLS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"id": IDS, "name": TEXT, "arguments": ARGUMENTS}),
        st.fixed_dictionaries(
            {"id": IDS, "type": st.just("function")},
            optional={"function": st.fixed_dictionaries({"name": TEXT, "arguments": ARGUMENTS})},
        ),
        st.sampled_from([{}, {"id": 7, "name": None}, "odd"]),
    ),
    max_size=3,
)
BLOCKS = st.lists(
    st.sampled_from(
        [
            {"type": "text", "text": "so"},
            {"type": "text", "text": ""},
            {"type": "tool_use", "id": "toolu_01", "name": "ls", "input": {"at": "."}},
            SIGNED,
            REDACTED,
            "odd",
            {"type": "odd"},
        ]
    ),
    max_size=3,
)
CONTENT = JSON | PARTS | st.lists(IMAGES, max_size=2) | TEXT
MESSAGES: st.SearchStrategy[list[Message]] = st.lists(
    st.one_of(
        st.builds(Message, role=st.sampled_from(["user", "user", "system"]), content=CONTENT),
        st.builds(
            Message,
            role=st.just("assistant"),
            content=TEXT | BLOCKS,
            tool_calls=st.none() | CALLS,
            reasoning=REASONING,
            provider=st.sampled_from([None, None, "anthropic", "openai", "elsewhere"]),
        ),
        st.builds(
            Message,
            role=st.just("tool"),
            content=CONTENT,
            tool_call_id=st.none() | IDS,
            is_error=st.booleans(),
        ),
    ),
    max_size=10,
)


def context(messages: list[Message], **fields: Any) -> Context:
    return Context(messages=messages, manifest=Manifest(policy="test", max_tokens=None, tokens=0), **fields)


CONTEXTS: st.SearchStrategy[Context] = st.builds(
    context, MESSAGES, system=TEXT, notebook=TEXT, live_screen=TEXT, stable=st.integers(0, 12)
)
TOOL = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
TOOLS: st.SearchStrategy[list[dict[str, Any]]] = st.sampled_from(
    [
        [],
        [{"name": "ls", "description": "Lists.", "input_schema": TOOL}],
        [
            {"type": "function", "function": {"name": "ls", "parameters": TOOL, "strict": True}},
            {"name": "pwd"},
        ],
    ]
)
