"""An export as a session file of Claude Code: the importer reads it as the same conversation.

That Claude Code itself continues such a file was tried with 2.1.197; it cannot run in tests.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.entries import (
    Body,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
)
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.claude_code import CLAUDE_CODE, claude_code_id
from historyapp.core.importers import IMPORTERS, detect
from tests.core.entries import LIVE, result, session
from tests.core.importers.reading import bodies, read, source

ID = "0197c7d0-0b1e-7d3a-8a55-3c1f0a9e7b42"
CONVERSATION: list[Body] = [
    ModelInput(content="hi 😀"),
    ModelOutput(
        text="I look.",
        tool_calls=(ToolCall(id="a", name="look", arguments={"at": 1}), ToolCall(id="b", name="look")),
    ),
    result("a", "here", tool_name="look"),
    result("b", status="error", outputs=None, reason="no", tool_name="look"),
    ModelOutput(text="Done."),
]


def lines(entries: list[Entry], **fields: Any) -> list[dict[str, Any]]:
    written = "".join(CLAUDE_CODE.write(ExportSession(ID, entries, **fields)))
    return [json.loads(line) for line in written.splitlines()]


def test_an_export_is_imported_as_the_same_conversation() -> None:
    written = "".join(CLAUDE_CODE.write(ExportSession(ID, session(*CONVERSATION), head=5)))
    assert detect(source(written)).name == "claude_code"
    imported = bodies(read(IMPORTERS["claude_code"], written))
    assert [body.kind for body in imported] == ["model_input", "model_output", "tool_results", "model_output"]
    assert [*imported[:2], imported[3]] == [*CONVERSATION[:2], CONVERSATION[4]]
    assert [one["tool_call_id"] for one in imported[2].model_dump()["results"]] == ["a", "b"]


def test_the_lifetime_of_the_cache_is_kept() -> None:
    written = {"cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": 9}}
    metadata = {"usage": {"input_tokens": 1, **written}, "usage_convention": "anthropic"}
    question, answer = session(ModelInput(content="hi"), ModelOutput(text="Done."))
    (_, line) = lines([question, answer._replace(metadata=metadata)])
    usage = line["message"]["usage"]
    assert usage["cache_creation"] == {"ephemeral_1h_input_tokens": 9}
    assert usage["cache_creation_input_tokens"] == 9


def test_results_have_their_own_time() -> None:
    moments = [datetime(2026, 1, 1, minute=minute, tzinfo=UTC) for minute in range(5)]
    entries = session(*CONVERSATION)
    dated = [entry._replace(created_at=moment) for entry, moment in zip(entries, moments, strict=True)]
    assert [line["timestamp"][14:16] for line in lines(dated)] == ["00", "01", "03", "04"]


def test_an_input_before_results_has_its_own_time() -> None:
    bodies = [CONVERSATION[0], CONVERSATION[1], ModelInput(content="Also the tests."), *CONVERSATION[2:]]
    moments = [datetime(2026, 1, 1, minute=minute, tzinfo=UTC) for minute in range(6)]
    dated = [
        entry._replace(created_at=moment) for entry, moment in zip(session(*bodies), moments, strict=True)
    ]
    (line,) = (line for line in lines(dated) if "Also the tests." in json.dumps(line["message"]["content"]))
    assert line["timestamp"][14:16] == "02"


@given(LIVE)
def test_lines_of_any_session_follow_each_other(entries: list[Entry]) -> None:
    newest = None
    for line in lines(entries):
        assert line["sessionId"] == claude_code_id(ID, 0)
        is_boundary = line.get("subtype") == "compact_boundary"
        assert (line["logicalParentUuid"] if is_boundary else line["parentUuid"]) == newest
        newest = line["uuid"]
        if not is_boundary:
            assert line["message"]["role"] == line["type"]
            assert line["message"]["content"]


def test_what_was_compacted_or_cleared_is_before_a_boundary() -> None:
    summary = ModelInput(channel="compaction", content="It went well.")
    cleared = ModelInput(channel="command", content="<command-name>/clear</command-name>")
    written = lines(session(*CONVERSATION, summary, *CONVERSATION, cleared, ModelInput(content="Next.")))
    boundaries = [n for n, line in enumerate(written) if line.get("subtype") == "compact_boundary"]
    assert [written[n]["parentUuid"] for n in boundaries] == [None, None]
    first, second = (written[n + 1] for n in boundaries)
    assert (first["isCompactSummary"], first["message"]["content"][0]["text"]) == (True, "It went well.")
    assert "/clear" in second["message"]["content"][0]["text"]
    assert [written[n]["content"] for n in boundaries] == ["Conversation compacted", "Conversation cleared"]
    assert written[boundaries[1] + 2]["message"]["content"][0]["text"] == "Next."


def test_a_clear_that_begins_the_session_cuts_off_nothing() -> None:
    caveat = ModelInput(channel="command", content="<local-command-caveat>Caveat: …</local-command-caveat>")
    cleared = ModelInput(channel="command", content="<command-name>/clear</command-name>")
    written = lines(session(caveat, cleared, *CONVERSATION))
    assert [line["type"] for line in written] == ["user", "user", "user", "assistant", "user", "assistant"]
    assert [line["parentUuid"] for line in written] == [None, *(line["uuid"] for line in written[:-1])]


@pytest.mark.parametrize(
    ("channel", "content", "is_cut"),
    [
        ("command", "<command-name>/model</command-name>", False),
        ("command", "<local-command-stdout></local-command-stdout>", False),
        ("command", "<bash-stdout>the old plan</bash-stdout>", True),
        ("command", "<command-message>init is analyzing…</command-message>", True),
        ("meta", "Please analyze this codebase.", True),
    ],
)
def test_text_before_a_clear_stays_before_a_boundary(channel: str, content: str, *, is_cut: bool) -> None:
    cleared = ModelInput(channel="command", content="<command-name>/clear</command-name>")
    written = lines(session(ModelInput(channel=channel, content=content), cleared, *CONVERSATION))
    assert (written[1].get("subtype") == "compact_boundary") is is_cut


def test_instructions_are_left_out_and_usage_is_kept() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70, "output_tokens": 3}
    output = Entry(3, ModelOutput(text="Done."), session(*CONVERSATION)[0].created_at, {
        "model": "claude-opus-4-6", "usage": usage, "usage_convention": "anthropic",
    })  # fmt: skip
    beginning = session(SystemInstruction(text="Be brief."), MemoryNotebook(content="x"))
    user, assistant = lines([*beginning, output], metadata={"cwd": "/srv/shop", "version": "2.0.1"})
    assert "not recorded" in user["message"]["content"][0]["text"]
    assert (user["cwd"], user["version"]) == ("/srv/shop", "2.0.1")
    assert assistant["message"]["model"] == "claude-opus-4-6"
    assert assistant["message"]["usage"] == {
        "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 70,
        "output_tokens": 3,
    }  # fmt: skip


def test_an_export_has_an_id_of_its_own_for_each_position() -> None:
    assert len({ID, claude_code_id(ID, 1), claude_code_id(ID, 2)}) == 3
    assert claude_code_id(ID, 1) == claude_code_id(ID, 1)
