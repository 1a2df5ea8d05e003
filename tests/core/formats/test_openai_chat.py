import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.entries import (
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
)
from historyapp.core.episodes import conversation_parts
from historyapp.core.formats.openai_chat import OPENAI_CHAT
from historyapp.core.importers import IMPORTERS
from tests.core.entries import LIVE, calls, result, session, session_of
from tests.core.formats.rules import check_openai
from tests.core.importers.reading import read_path
from tests.core.importers.test_corpus import SMALL_FILES
from tests.shared import needs


def messages(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    return OPENAI_CHAT.joined(map(OPENAI_CHAT.write, conversation_parts(entries)))


def rendered(*bodies: Any) -> list[dict[str, Any]]:
    written = list(messages(session(*bodies)))
    check_openai(written)
    return written


@given(LIVE)
def test_every_session_gives_a_valid_request(entries: list[Entry]) -> None:
    check_openai(list(messages(entries)))


@needs("corpus")
@SMALL_FILES
def test_every_real_session_gives_a_valid_request(path: Path, name: str) -> None:
    check_openai(list(messages(session_of(read_path(IMPORTERS[name], path)))))


def test_a_conversation_is_written_in_the_shape_of_the_provider() -> None:
    call = ToolCall(id="a", name="look", arguments={"at": 1})
    assert rendered(
        SystemInstruction(text="Be brief."),
        MemoryNotebook(content="It is red."),
        ModelInput(content="hi"),
        ModelOutput(text="I look.", tool_calls=(call,)),
        result("a", {"x": 1}),
        ModelOutput(text="Done."),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "It is red."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"x":1}'},
        {"role": "assistant", "content": "Done."},
    ]


def test_images_and_files_are_parts() -> None:
    image = {"type": "image", "media_type": "image/png", "data": "AA"}
    [message] = rendered(ModelInput(content=[{"type": "text", "text": "see"}, image, {"type": "document"}]))
    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "text", "text": "[document]"},
    ]


@pytest.mark.parametrize("arguments", ["not json", [1], None, 7])
def test_arguments_are_an_object_in_json_text(arguments: Any) -> None:
    [message, _] = rendered(
        ModelOutput(tool_calls=(ToolCall(id="a", name="n", arguments=arguments),)), result("a")
    )
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"raw": arguments}


def test_blank_content_makes_no_message() -> None:
    assert rendered(ModelInput(content=" "), ModelOutput(text="\n"), SystemInstruction(text="")) == []


def test_thoughts_are_not_text_next_to_calls() -> None:
    assert rendered(calls("a", thoughts="hm"), result("a"))[0]["content"] is None


def test_an_instruction_on_its_own_channel_stays_an_instruction() -> None:
    assert rendered(ModelInput(channel="system", content="x"))[0]["role"] == "system"
    assert rendered(ModelInput(channel="environment", content="x"))[0]["role"] == "user"
