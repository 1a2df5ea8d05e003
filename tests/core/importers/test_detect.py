from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS, detect
from historyapp.core.importers.base import Source
from tests.core.importers.reading import RUBBISH, lines, source
from tests.shared import SHARED, needs

CORPUS = SHARED / "corpus"
FORMATS = {
    "claude_code": "claude_code",
    "codex_rollout": "codex_rollout",
    "swe_agent_traj": "swe_agent",
    "mini_swe_agent": "mini_swe_agent",
    "openhands": "openhands",
    "openai_chat": "openai_chat",
    "anthropic_messages": "anthropic_messages",
    "gemini_cli": "gemini_cli",
    # Recorded chat completions, whichever agent made them.
    "autogpt_vcr/derived": "openai_chat",
    # Two recorded calls: the first is an Anthropic one, the second is skipped.
    "openai_responses/pydantic_vcr/test_openai_responses_thinking_part_from_other_model.json": (
        "anthropic_messages"
    ),
}
EVERY_FILE = sorted(path for path in CORPUS.rglob("*") if path.is_file())


def expected(path: Path) -> str | None:
    place = path.relative_to(CORPUS).as_posix()
    return next((name for start, name in FORMATS.items() if place.startswith(start)), None)


def named(item: Source) -> str | None:
    try:
        return detect(item).name
    except UnreadableTranscript:
        return None


@needs("corpus")
def test_a_real_file_is_recognised_by_its_content() -> None:
    for path in EVERY_FILE:
        with path.open("rb") as stream:
            assert named(Source("no-name", stream)) == expected(path), path.name


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ({"hello": "world", "k" * 60: 1}, f"its object has the keys hello, {'k' * 39}…"),
        ([{"hello": 1}], "the first object of its list has the keys hello"),
        ("roses", "it does not begin with a JSON object"),
        ('{"type": 1}\n{"type": 2}', "its first object has the keys type"),
        ({}, "its object is empty"),
    ],
)
def test_the_error_of_a_file_in_no_known_format_says_what_it_is(content: Any, seen: str) -> None:
    with pytest.raises(UnreadableTranscript) as error:
        detect(source(content, "hello.json"))
    assert f": {seen}. If you know" in error.value.detail
    assert "choose it: playhead_jsonl, claude_code, " in error.value.detail


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x01\x02",
        b"PK\x03\x04",
        "plain words",
        "[",
        "{",
        "[]",
        "{}",
        "null",
        "7",
        '"text"',
        "[" * 5000,
    ],
)
def test_a_file_that_is_not_a_transcript_is_refused(data: bytes | str) -> None:
    assert named(source(data)) is None


def test_every_importer_is_registered_under_its_name() -> None:
    assert all(importer.name == name for name, importer in IMPORTERS.items())
    assert len({importer.title for importer in IMPORTERS.values()}) == len(IMPORTERS)


CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
TOOL_USE = {"type": "tool_use", "id": "t", "name": "n", "input": {}}


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (CHAT, "openai_chat"),
        ({"messages": CHAT}, "openai_chat"),
        ({"messages": CHAT, "tools": [{"type": "function", "function": {}}]}, "openai_chat"),
        ([{"task_id": 1, "trial": 0, "traj": CHAT}], "openai_chat"),
        (lines({"messages": CHAT}, {"messages": CHAT}), "openai_chat"),
        ({"messages": CHAT, "system": "be brief"}, "anthropic_messages"),
        ({"messages": CHAT, "tools": [{"name": "n", "input_schema": {}}]}, "anthropic_messages"),
        ([*CHAT, {"role": "assistant", "content": [TOOL_USE]}], "anthropic_messages"),
        (lines({"system": "s", "messages": CHAT}, {"system": "s", "messages": CHAT}), "anthropic_messages"),
        (
            [*CHAT, {"role": "user", "content": "<returncode>0</returncode>\n<output></output>"}],
            "mini_swe_agent",
        ),
        ({"history": {"episodes": [], "cursor": 0}}, "state_json"),
        ({"episodes": [{"action": {}}], "cursor": 1}, "state_json"),
        ('{"playhead": 1, "kind": "session", "id": "a"}', "playhead_jsonl"),
        ({"history": CHAT}, None),
        ({"action": "opened", "number": 3}, None),
        ([{"role": "Orchestrator (thought)", "content": "hm"}], None),
    ],
)
def test_the_shape_of_a_file_identifies_its_format(data: object, name: str | None) -> None:
    assert named(source(data)) == name


def test_a_pretty_printed_document_is_read_as_one_under_any_name() -> None:
    import json

    assert named(source(json.dumps(CHAT, indent=2), "chat.jsonl")) == "openai_chat"


def test_a_first_line_longer_than_the_head_is_still_read() -> None:
    long = {"messages": [{"role": "user", "content": "x" * 600_000}]}
    assert named(source(lines(long, {"messages": CHAT}))) == "openai_chat"


def test_broken_lines_do_not_hide_the_format() -> None:
    data = '{"messages": [{"ro\n' + lines(*[{"messages": CHAT}] * 3)
    assert named(source(data)) == "openai_chat"


@given(st.recursive(RUBBISH, lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from([
        "messages", "traj", "history", "trajectory", "episodes", "cursor", "role", "content", "request",
        "response", "kind", "action", "observation", "args", "info", "type", "payload", "playhead", "system",
    ]), inner), max_leaves=20))  # fmt: skip
def test_detecting_a_format_never_fails(data: object) -> None:
    named(source(data))
