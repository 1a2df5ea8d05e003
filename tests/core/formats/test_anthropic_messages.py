import json
from pathlib import Path
from typing import Any

from hypothesis import given

from historyapp.core.entries import Entry, MemoryNotebook, ModelInput, ModelOutput, SystemInstruction
from historyapp.core.exporters.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.exporters.base import ExportSession
from historyapp.core.formats.anthropic_messages import NO_BEGINNING
from historyapp.core.importers import IMPORTERS
from tests.core.entries import LIVE, calls, result, session, session_of
from tests.core.formats.rules import check_anthropic
from tests.core.importers.reading import read_path
from tests.core.importers.test_corpus import SMALL_FILES
from tests.shared import needs

ASKS = ModelInput(content="hi")
THINKING = {"type": "thinking", "thinking": "hm", "signature": "S"}


def render(entries: list[Entry]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    written = json.loads("".join(ANTHROPIC_MESSAGES.write(ExportSession("s", entries))))
    check_anthropic(written["messages"], written["system"])
    return written["messages"], written["system"]


def rendered(*bodies: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in render(session(*bodies))[0]]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@given(LIVE)
def test_every_session_gives_a_valid_request(entries: list[Entry]) -> None:
    render(entries)


@needs("corpus")
@SMALL_FILES
def test_every_real_session_gives_a_valid_request(path: Path, name: str) -> None:
    render(session_of(read_path(IMPORTERS[name], path)))


def test_parallel_results_and_the_next_input_are_one_message() -> None:
    bodies = [ASKS, calls("a", "b"), result("b", "2"), result("a", "1"), ModelInput(content="more")]
    _, (_, call_blocks), (role, blocks) = rendered(*bodies)
    assert [block["id"] for block in call_blocks] == ["a", "b"]
    assert role == "user"
    assert [block.get("tool_use_id", block.get("text")) for block in blocks] == ["a", "b", "more"]


def test_an_error_is_marked() -> None:
    *_, (_, [block]) = rendered(ASKS, calls("a"), result("a", None, status="error", reason="no"))
    assert (block["is_error"], block["content"]) == (True, [text("no")])


def test_a_session_that_begins_with_the_model_says_so() -> None:
    assert rendered(ModelOutput(text="x"))[0] == ("user", [text(NO_BEGINNING)])


def test_the_current_instruction_and_notebook_are_the_system_field() -> None:
    old, new = SystemInstruction(text="old"), SystemInstruction(text="new")
    messages, system = render(session(old, ASKS, new, MemoryNotebook(content="red")))
    assert system == [text("new"), text("red")]
    assert messages == [{"role": "user", "content": [text("hi")]}]


def test_thinking_comes_first_unchanged_and_only_with_its_message() -> None:
    unsigned = {"type": "thinking", "thinking": "mine"}
    blocks = rendered(ASKS, calls("a", reasoning=[THINKING, unsigned], thoughts="hm"), result("a"))[1][1]
    assert blocks[0] == THINKING
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]
    assert rendered(ASKS, ModelOutput(reasoning=[THINKING])) == [("user", [text("hi")])]


def test_consecutive_answers_are_one_message() -> None:
    assert rendered(ASKS, ModelOutput(text="a"), ModelOutput(text="b "))[1] == (
        "assistant",
        [text("a"), text("b")],
    )


def test_an_image_in_a_result_is_sent() -> None:
    image = {"type": "image", "media_type": "image/png", "data": "AA"}
    *_, (_, [block]) = rendered(ASKS, calls("a"), result("a", [image]))
    source = {"type": "base64", "media_type": "image/png", "data": "AA"}
    assert block["content"] == [{"type": "image", "source": source}]
