"""Random contexts, of sessions with entries in every order that agents can write."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context, Item
from historyapp.core.conversation import ConversationPart, InputMessage
from historyapp.core.entries import Body, ModelOutput, ToolCall
from historyapp.core.episodes import conversation_parts
from historyapp.core.formats import FORMATS
from historyapp.core.manifest import Manifest
from tests.core.entries import JSON, LIVE, PARTS, TEXT, session

SIGNED = {"type": "thinking", "thinking": "hm", "signature": "EqQB+w=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwK"}
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NOT_TEXT: list[dict[str, Any]] = [
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
IMAGES = st.sampled_from(NOT_TEXT)
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
ARGUMENTS = JSON | st.sampled_from(["", "{}", '{"a":1}', "[1]", "not json", "[" * 2000, '{"a":"\\ud800"}'])
CALLS = st.builds(
    ToolCall, id=st.sampled_from(["a", "b", "", "ä/ö", "x" * 90]), name=TEXT, arguments=ARGUMENTS
)
THINKING = st.builds(
    ModelOutput, text=TEXT, tool_calls=st.lists(CALLS, max_size=3).map(tuple), reasoning=REASONING
)
CONTENT = JSON | PARTS | st.lists(IMAGES, max_size=2) | TEXT
ASIDES = st.builds(
    InputMessage,
    position=st.just(0),
    content=CONTENT,
    channel=st.sampled_from(["user", "user", "system", "developer", "tool"]),
)
SESSIONS = st.one_of(
    LIVE.map(lambda entries: list(conversation_parts(entries))),
    st.lists(ASIDES | THINKING.map(lambda output: next(conversation_parts(session(output)))), max_size=10),
)


def context(
    name: str, conversation: Iterable[ConversationPart], live_screen: str = "", **fields: Any
) -> Context:
    """A context of all the given entries, as a format writes it."""
    screen = FORMATS[name].write(InputMessage(0, live_screen, "live_screen")) if live_screen.strip() else None
    parts = tuple(map(RequestMeter(name).write, conversation))
    return Context(parts, Manifest(policy="test", max_tokens=None, tokens=0), live_screen=screen, **fields)


def of(name: str, *bodies: Body, **fields: Any) -> Context:
    """A context of the session with these bodies."""
    return context(name, conversation_parts(session(*bodies)), **fields)


def messages_of(written: Context) -> list[Item]:
    """The messages of a context in the format ``openai_chat``."""
    return [item for part in written.parts for item in part.items]


FIELDS = st.fixed_dictionaries(
    {"system": TEXT, "notebook": TEXT, "live_screen": TEXT, "stable": st.integers(0, 12)}
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
