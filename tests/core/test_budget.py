from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.budget import (
    FACTORS,
    OVERHEAD,
    PER_PAGE,
    PRIMING,
    TOOL_PROMPT,
    RequestMeter,
    meter_for,
)
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS
from historyapp.core.formats.turns import NO_RESULT
from historyapp.core.manifest import Message
from historyapp.core.tokens import count_tokens
from tests.core.entries import TEXT
from tests.core.formats.contexts import TINY_PNG

words: Callable[[str], int] = lambda text: len(text.split())  # noqa: E731 a counter that can be checked by hand
EVERY = pytest.mark.parametrize("format", FORMATS)
SAID = Message(role="user", content="one two three")
CALL = Message(
    role="assistant", content="I look", tool_calls=[{"id": "a", "name": "ls", "arguments": {"at": "x y"}}]
)
RESULT = Message(role="tool", content="here and there", tool_call_id="a")


def test_a_message_costs_its_text_and_overhead() -> None:
    assert RequestMeter(count=words).message(SAID) == 3 + OVERHEAD
    assert RequestMeter(count=words, factor=1.5).message(SAID) == 11  # 10.5, rounded up


def test_a_blank_message_costs_nothing() -> None:
    assert RequestMeter().said(" \n") == 0


def test_a_call_costs_its_name_and_arguments_apart_from_its_text_and_its_result() -> None:
    meter = RequestMeter(count=words)
    assert meter.message(CALL) == (2 + OVERHEAD) + (3 + OVERHEAD)  # ls {"at":"x y"}
    assert meter.message(RESULT) == 3 + OVERHEAD
    assert meter.messages([CALL, RESULT]) == meter.message(CALL) + meter.message(RESULT)


@EVERY
def test_a_turn_costs_as_much_as_its_messages(format: str) -> None:
    meter = RequestMeter(format, factor=1.25)
    turn = [SAID, CALL, RESULT]
    assert meter.messages(turn) == sum(map(meter.message, turn))


@EVERY
def test_a_call_without_a_result_costs_the_one_that_it_gets(format: str) -> None:
    meter = RequestMeter(format)
    answer = Message(role="tool", content=NO_RESULT, tool_call_id="a", is_error=True)
    assert meter.messages([CALL]) == meter.messages([CALL, answer])


@EVERY
def test_what_a_format_may_add_is_the_most_that_it_adds(format: str) -> None:
    meter = RequestMeter(format)
    said = Message(role="assistant", content="done")
    for messages in ([], [SAID], [said], [said, SAID], [SAID, said]):
        assert 0 <= meter.added(messages) <= meter.reserve
    assert meter.added([SAID]) == (0 if format == "plain" else PRIMING)


def test_tools_cost_their_definitions_and_what_the_provider_adds() -> None:
    tools = [{"name": "ls", "description": "Lists a folder."}]
    assert RequestMeter().fixed("", "", tools).tools > count_tokens("Lists a folder.") + OVERHEAD
    assert RequestMeter("anthropic_messages").fixed("", "", tools).tools > TOOL_PROMPT
    assert RequestMeter().fixed("Be brief.", "", []).total == count_tokens("Be brief.") + OVERHEAD


@pytest.mark.parametrize(
    ("format", "part", "tokens"),
    [
        ("openai_chat", {"type": "image", "media_type": "image/png", "data": TINY_PNG}, 255),
        ("openai_responses", {"type": "image", "url": "https://x.test/a.png"}, 2489),
        ("anthropic_messages", {"type": "image", "media_type": "image/png", "data": TINY_PNG}, 1),
        ("anthropic_messages", {"type": "image", "url": "https://x.test/a.png"}, 4784),
        (
            "anthropic_messages",
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            },
            PER_PAGE,
        ),
    ],
)
def test_what_is_no_text_costs_what_its_provider_says(format: str, part: Any, tokens: int) -> None:
    assert RequestMeter(format).message(Message(role="user", content=[part])) == tokens + OVERHEAD


@given(st.lists(TEXT, max_size=5))
def test_plain_text_costs_no_more_than_is_counted(texts: list[str]) -> None:
    meter = RequestMeter("plain")
    text = "\n\n".join(texts)
    assert count_tokens(text) <= meter.total({"text": text})


def test_reasoning_costs_only_where_it_is_sent() -> None:
    thinking = {"type": "thinking", "thinking": "long and hard " * 20, "signature": "S"}
    said = Message(role="assistant", content="so", reasoning=[thinking])
    bare = Message(role="assistant", content="so")
    assert RequestMeter("openai_chat").message(said) == RequestMeter("openai_chat").message(bare)
    assert RequestMeter("anthropic_messages").message(said) > 40 + RequestMeter("anthropic_messages").message(
        bare
    )


@pytest.mark.parametrize(
    ("format", "model", "factor"),
    [
        ("openai_chat", "", 1.0),
        ("openai_chat", "gpt-5-mini", 1.0),
        ("openai_chat", "openai:gpt-4", 1.0),
        ("anthropic_messages", "", FACTORS["anthropic"]),
        ("anthropic_messages", "claude-opus-4-1", FACTORS["anthropic"]),
        ("openai_chat", "anthropic/claude-3-haiku", FACTORS["anthropic"]),
        ("openai_chat", "llama-3", FACTORS["unknown"]),
    ],
)
def test_other_tokenizers_than_openais_are_estimated(format: str, model: str, factor: float) -> None:
    assert meter_for(format, model).factor == factor
    assert meter_for(format, model, 2.0).factor == 2.0


def test_a_meter_for_an_unknown_format_is_refused() -> None:
    with pytest.raises(Invalid, match="no format 'xml'"):
        meter_for("xml")
