from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.budget import UNKNOWN_FACTOR, RequestMeter, meter_for
from historyapp.core.conversation import NO_RESULT, InputMessage, Turn
from historyapp.core.entries import ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS
from historyapp.core.formats.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.formats.base import OVERHEAD, PAGE_TOKENS
from historyapp.core.tokens import count_tokens
from tests.core.entries import TEXT
from tests.core.formats.contexts import TINY_PNG, of

words: Callable[[str], int] = lambda text: len(text.split())  # noqa: E731 a counter that can be checked by hand
EVERY = pytest.mark.parametrize("format", FORMATS)
INPUT = InputMessage(1, "one two three")
OUTPUT = ModelOutput(text="I look", tool_calls=(ToolCall(id="a", name="ls", arguments={"at": "x y"}),))
RESULT = ToolResult(tool_call_id="a", status="success", outputs="here and there")


def test_a_message_costs_its_text_and_overhead() -> None:
    assert RequestMeter(count=words).write(INPUT).tokens == 3 + OVERHEAD
    assert RequestMeter(count=words, factor=1.5).write(INPUT).tokens == 11  # 10.5, rounded up


def test_a_blank_message_costs_nothing() -> None:
    assert RequestMeter().message_tokens(" \n") == 0


def test_a_turn_costs_its_text_its_call_and_its_result() -> None:
    output, called, returned = 2 + OVERHEAD, 3 + OVERHEAD, 3 + OVERHEAD  # ls {"at":"x y"}
    assert RequestMeter(count=words).write(Turn(2, OUTPUT, (RESULT,))).tokens == output + called + returned


@EVERY
def test_a_request_costs_the_sum_of_its_parts(format: str) -> None:
    built = of(format, ModelInput(content="hi"), OUTPUT, ToolResults(results=(RESULT,)))
    meter = RequestMeter(format, factor=1.25)
    parts = sum(meter.write(part).tokens for part in (InputMessage(1, "hi"), Turn(2, OUTPUT, (RESULT,))))
    assert meter.request_tokens(FORMATS[format].request(built)) == parts + meter.added_tokens(built)


@EVERY
def test_an_unanswered_call_costs_the_result_that_it_gets(format: str) -> None:
    given = ToolResult(tool_call_id="a", status="error", reason=NO_RESULT)
    [unanswered] = of(format, OUTPUT).parts
    assert unanswered.tokens > 0
    assert RequestMeter(format).write(Turn(1, OUTPUT, (given,))).tokens == unanswered.tokens


@EVERY
def test_the_declared_frame_of_a_format_is_its_largest_addition(format: str) -> None:
    meter = RequestMeter(format)
    asks, model_output = ModelInput(content="hi"), ModelOutput(text="done")
    for bodies in ([], [asks], [model_output], [model_output, asks], [asks, model_output]):
        assert 0 <= meter.added_tokens(of(format, *bodies)) <= meter.reserve
    assert meter.added_tokens(of(format, asks)) == FORMATS[format].priming


def test_tools_cost_their_definitions_and_what_the_provider_adds() -> None:
    tools = [{"name": "ls", "description": "Lists a folder."}]
    assert RequestMeter().fixed_tokens("", "", tools).tools > count_tokens("Lists a folder.") + OVERHEAD
    assert (
        RequestMeter("anthropic_messages").fixed_tokens("", "", tools).tools > ANTHROPIC_MESSAGES.tool_prompt
    )
    assert sum(RequestMeter().fixed_tokens("Be brief.", "", [])) == count_tokens("Be brief.") + OVERHEAD


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
            PAGE_TOKENS,
        ),
    ],
)
def test_parts_that_are_not_text_cost_what_their_provider_documents(
    format: str, part: Any, tokens: int
) -> None:
    assert RequestMeter(format).write(InputMessage(0, [part])).tokens == tokens + OVERHEAD


@given(st.lists(TEXT, max_size=5))
def test_plain_text_costs_no_more_than_is_counted(texts: list[str]) -> None:
    meter = RequestMeter("plain")
    text = "\n\n".join(texts)
    assert count_tokens(text) <= meter.request_tokens({"text": text})


def test_reasoning_costs_tokens_only_if_it_is_sent() -> None:
    thinking = {"type": "thinking", "thinking": "long and hard " * 20, "signature": "S"}
    output, bare = (Turn(1, ModelOutput(text="so", reasoning=given)) for given in ([thinking], []))
    chat, messages = RequestMeter("openai_chat"), RequestMeter("anthropic_messages")
    assert chat.write(output).tokens == chat.write(bare).tokens
    assert messages.write(output).tokens > 40 + messages.write(bare).tokens


@pytest.mark.parametrize(
    ("format", "model", "factor"),
    [
        ("openai_chat", "", 1.0),
        ("openai_chat", "gpt-5-mini", 1.0),
        ("openai_chat", "openai:gpt-4", 1.0),
        ("anthropic_messages", "", 1.25),
        ("anthropic_messages", "claude-opus-4-1", 1.25),
        ("openai_chat", "anthropic/claude-3-haiku", 1.25),
        ("openai_chat", "llama-3", UNKNOWN_FACTOR),
    ],
)
def test_tokenizers_other_than_openais_are_estimated(format: str, model: str, factor: float) -> None:
    assert meter_for(format, model).factor == factor
    assert meter_for(format, model, 2.0).factor == 2.0


def test_a_meter_for_an_unknown_format_is_refused() -> None:
    with pytest.raises(Invalid, match="no format 'xml'"):
        meter_for("xml")
