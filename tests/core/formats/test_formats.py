"""Rules for every format, with any output of a policy."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.conversation import NO_RESULT, ConversationPart
from historyapp.core.entries import ModelInput, ModelOutput, ToolCall, ToolResults
from historyapp.core.episodes import conversation_parts
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS, format_named, prefix_bytes, render_bytes
from historyapp.core.formats.base import BUILT_IN_TOOL_TOKENS, CONTINUE, EARLIER_START, START
from historyapp.core.tokens import count_tokens
from tests.core.entries import result, session
from tests.core.formats.contexts import (
    ENCRYPTED,
    FIELDS,
    REDACTED,
    SESSIONS,
    SIGNED,
    TINY_PNG,
    TOOLS,
    context,
    of,
)
from tests.core.formats.test_sdk_types import parse
from tests.core.formats.validators import validate
from tests.examples import examples

EVERY = pytest.mark.parametrize("name", FORMATS)
CHATTING = pytest.mark.parametrize("name", [name for name in FORMATS if name != "plain"])
ASKS = ModelInput(content="go")
CALL = ToolCall(id="", name="ls", arguments={"at": "."})


def calling(*ids: str, **fields: Any) -> ModelOutput:
    return ModelOutput(tool_calls=tuple(CALL.model_copy(update={"id": id}) for id in ids), **fields)


def answer(id: str, outputs: Any = "here", **fields: Any) -> ToolResults:
    return result(id, outputs, **fields)


def rendered(name: str, *bodies: Any, **fields: Any) -> dict[str, Any]:
    request = FORMATS[name].request(of(name, *bodies, **fields))
    validate(name, request)
    return request


@EVERY
@settings(max_examples=examples(100))
@given(conversation=SESSIONS, fields=FIELDS, tools=TOOLS)
def test_every_context_gives_a_valid_request(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], tools: list[Any]
) -> None:
    validate(name, FORMATS[name].request(context(name, conversation, **fields), tools))


@EVERY
@settings(max_examples=examples(60))
@given(conversation=SESSIONS, fields=FIELDS, cut=st.tuples(st.integers(0, 10), st.integers(0, 10)))
def test_every_cut_gives_a_valid_request(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], cut: tuple[int, int]
) -> None:
    validate(name, FORMATS[name].request(context(name, conversation[cut[0] : cut[1]], **fields)))


@EVERY
@settings(max_examples=examples(20))
@given(conversation=SESSIONS, fields=FIELDS, tools=TOOLS)
def test_the_same_context_gives_the_same_bytes(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], tools: list[Any]
) -> None:
    once = [
        render_bytes(FORMATS[name].request(context(name, conversation, **fields), tools)) for _ in range(2)
    ]
    assert once[0] == once[1]


@EVERY
@settings(max_examples=examples(60))
@given(conversation=SESSIONS, fields=FIELDS, tools=TOOLS)
def test_the_meter_counts_what_the_request_costs(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any], tools: list[Any]
) -> None:
    meter = RequestMeter(name, factor=1.25)
    given = context(name, conversation, **fields)
    parts = (
        sum(meter.fixed_tokens(given.system, given.notebook, tools))
        + sum(meter.write(each).tokens for each in conversation)
        + meter.message_tokens(fields["live_screen"])
        + meter.added_tokens(given)
    )
    assert meter.request_tokens(FORMATS[name].request(given, tools)) == parts


@CHATTING
@settings(max_examples=examples(40))
@given(conversation=SESSIONS, fields=FIELDS)
def test_later_messages_do_not_change_the_stable_part(
    name: str, conversation: list[ConversationPart], fields: dict[str, Any]
) -> None:
    """Other messages after it, or none, leave its bytes as they are, but for breakpoints and an ending."""
    stable = conversation[: fields["stable"]]
    question, turn = conversation_parts(session(ASKS, calling("zz"), answer("zz")))
    fields = {**fields, "live_screen": ""}
    longer = context(name, [*stable, question], **fields)
    longest = context(name, [*stable, question, turn], **fields)
    short, long = (prefix_bytes(FORMATS[name].request(c)) for c in (longer, longest))
    assert long.startswith(short.rstrip(b"]}"))


@CHATTING
def test_every_call_is_answered_directly_and_once(name: str) -> None:
    request = rendered(
        name, ASKS, calling("a", "b"), ASKS, answer("b", "2"), answer("a", "1"), answer("a", "3")
    )
    text = render_bytes(request).decode()
    assert text.index('"1"') < text.index('"2"')
    assert "returned: `3`" in text


@CHATTING
def test_an_unanswered_call_gets_a_truthful_result(name: str) -> None:
    assert NO_RESULT in render_bytes(rendered(name, ASKS, calling("a"))).decode()
    assert NO_RESULT in render_bytes(rendered(name, ASKS, calling("a"), calling("b"), answer("b"))).decode()


@EVERY
def test_a_result_without_its_call_becomes_the_users_text(name: str) -> None:
    assert "`lost`" in render_bytes(rendered(name, ASKS, answer("a", "lost"))).decode()


@CHATTING
def test_a_repeated_id_is_replaced_by_a_different_one_each_time(name: str) -> None:
    bodies = [ASKS, *(body for _ in range(3) for body in (calling("a"), answer("a")))]
    validate(name, rendered(name, *bodies))


@CHATTING
def test_calls_of_one_message_with_one_id_are_both_answered(name: str) -> None:
    text = render_bytes(rendered(name, ASKS, calling("a", "a"), answer("a", "the text"))).decode()
    assert text.count("the text") == 1
    assert "Answered together with the call a." in text


@CHATTING
def test_a_repeated_call_keeps_its_own_result(name: str) -> None:
    """Results stand in the order of their calls, by which providers without ids pair them."""
    bodies = [ASKS, calling("a", "b"), answer("a", "output 1"), answer("b", "output 2")]
    bodies += [calling("b", "a"), answer("a", "output 3"), answer("b", "output 4")]
    text = render_bytes(rendered(name, *bodies)).decode()
    assert re.findall(r"output (\d)", text) == ["1", "2", "4", "3"]


@EVERY
def test_a_remark_on_all_results_reaches_the_model(name: str) -> None:
    remarked = answer("a").model_copy(update={"overall": "One of two tools failed."})
    assert "One of two tools failed." in render_bytes(rendered(name, ASKS, calling("a"), remarked)).decode()


@EVERY
@pytest.mark.parametrize(
    "given",
    [
        {"status": "success", "outputs": "x", "feedback": "odd part"},
        {"status": "error", "reason": "x", "outputs": "odd part"},
        {"status": "interrupted_by_human", "feedback": "x", "outputs": "odd part"},
        {"status": "skipped", "reason": "x", "feedback": "odd part"},
    ],
)
def test_every_part_of_a_result_reaches_the_model(name: str, given: dict[str, Any]) -> None:
    given = {"outputs": None, **given}
    text = render_bytes(rendered(name, ASKS, calling("a"), answer("a", **given))).decode()
    assert text.count("odd part") == 1


def test_arguments_are_an_object_for_anthropic_and_a_string_for_openai() -> None:
    written = ModelOutput(tool_calls=(ToolCall(id="a", name="ls", arguments={"at": "日"}),))
    [_, call, _] = rendered("openai_chat", ASKS, written)["messages"]
    assert call["tool_calls"][0]["function"]["arguments"] == '{"at":"日"}'
    assert rendered("anthropic_messages", ASKS, written)["messages"][1]["content"][0]["input"] == {"at": "日"}


def test_reasoning_is_sent_unchanged_and_only_to_its_provider() -> None:
    thinking = calling("a", reasoning=[SIGNED, ENCRYPTED, REDACTED])
    requests = {name: rendered(name, ASKS, thinking, answer("a")) for name in FORMATS}
    blocks = requests["anthropic_messages"]["messages"][1]["content"]
    assert blocks[:2] == [SIGNED, REDACTED]
    assert [item["type"] for item in requests["openai_responses"]["input"]] == [
        "message", "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert requests["openai_responses"]["input"][1] == ENCRYPTED
    for name in ("openai_chat", "plain"):
        assert "gAAA" not in json.dumps(requests[name])
        assert "EmwK" not in json.dumps(requests[name])


def test_reasoning_without_text_or_calls_is_left_out() -> None:
    alone = ModelOutput(reasoning=[SIGNED, ENCRYPTED])
    assert len(rendered("anthropic_messages", ASKS, alone)["messages"]) == 1
    assert len(rendered("openai_responses", ASKS, alone)["input"]) == 1


def test_anthropic_begins_and_ends_with_a_user() -> None:
    conversation = ModelOutput(text="done")
    messages = rendered("anthropic_messages", conversation)["messages"]
    assert [(m["role"], m["content"][0]["text"]) for m in messages] == [
        ("user", START), ("assistant", "done"), ("user", CONTINUE),
    ]  # fmt: skip


def test_parallel_results_are_one_message_for_anthropic_and_one_each_for_openai() -> None:
    parallel = [ASKS, calling("a", "b"), answer("a"), answer("b")]
    blocks = rendered("anthropic_messages", *parallel)["messages"][2]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["a", "b"]
    assert [m["role"] for m in rendered("openai_chat", *parallel)["messages"][2:]] == ["tool", "tool"]
    assert [i["type"] for i in rendered("openai_responses", *parallel)["input"][1:]] == [
        "function_call", "function_call", "function_call_output", "function_call_output",
    ]  # fmt: skip


def test_a_leading_system_message_is_anthropics_system_field_and_a_later_one_is_a_user_message() -> None:
    later_instruction = ModelInput(channel="system", content="output")
    request = rendered("anthropic_messages", later_instruction, ASKS, later_instruction, system="first")
    assert [block["text"] for block in request["system"]] == ["first", "output"]
    assert [block["text"] for block in request["messages"][0]["content"]] == ["go", "output"]


def test_images_are_converted_or_named() -> None:
    image = {"type": "image", "media_type": "image/jpeg", "data": TINY_PNG}
    seen = ModelInput(content=[image])
    [block] = rendered("anthropic_messages", seen)["messages"][0]["content"]
    assert block["source"]["media_type"] == "image/png"  # by its content, not by its declared type
    [part] = rendered("openai_chat", seen)["messages"][0]["content"]
    assert part["image_url"]["url"] == f"data:image/png;base64,{TINY_PNG}"
    shot = [ASKS, calling("a"), answer("a", [image])]
    assert rendered("openai_responses", *shot)["input"][2]["output"][0]["type"] == "input_image"
    assert rendered("openai_chat", *shot)["messages"][2]["content"] == "[image]"


def test_the_live_screen_follows_the_newest_result() -> None:
    turn = [ASKS, calling("a"), answer("a")]
    blocks = rendered("anthropic_messages", *turn, live_screen="now")["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]
    assert rendered("openai_chat", *turn, live_screen="now")["messages"][-1] == {
        "role": "user",
        "content": "now",
    }


def test_breakpoints_are_on_stable_parts() -> None:
    turns = [ASKS, calling("a"), answer("a"), calling("b"), answer("b"), calling("c"), answer("c")]
    request = rendered("anthropic_messages", *turns, system="s", notebook="n", live_screen="x", stable=3)
    assert ["cache_control" in block for block in request["system"]] == [True, True]
    marked = [
        [("cache_control" in b) for b in m["content"]] for m in request["messages"] if m["role"] == "user"
    ]
    assert marked == [[False], [True], [True], [False, False]]
    tools = [{"name": "ls"}]
    request = FORMATS["anthropic_messages"].request(of("anthropic_messages", ASKS), tools)
    assert "cache_control" in request["tools"][-1]
    assert b"cache_control" not in prefix_bytes(request)


def test_plain_text_has_everything_in_order() -> None:
    text = rendered(
        "plain", ASKS, calling("a"), answer("a", None, status="error", reason="x"), system="Be brief."
    )["text"]
    assert text == "## System\nBe brief.\n\n## User\ngo\n\n## Call\nls(at='.')\n\n## Result: failed\nx"


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("odd", "must be an object"),
        ({"name": "a b"}, "letters, digits"),
        ({"name": "x" * 65}, "letters, digits"),
        ({}, "letters, digits"),
        ({"name": "ls", "parameters": {"type": "string"}}, "JSON schema of type object"),
        ({"name": "ls", "parameters": "odd"}, "JSON schema of type object"),
        (
            {"name": "ls", "input_schema": {"type": "object", "properties": []}},
            "properties must be an object",
        ),
        ({"name": "ls", "description": 7}, "must be text"),
        ({"type": "local_shell"}, "it is neither a function"),
        ({"type": "custom", "name": "x", "format": {"type": "text"}}, "it is neither a function"),
    ],
)
@EVERY
def test_an_invalid_tool_is_refused(name: str, tool: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        FORMATS[name].request(of(name, ASKS), [tool])


WEB_SEARCHES: dict[str, dict[str, Any]] = {
    "anthropic_messages": {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    "openai_responses": {"type": "web_search", "search_context_size": "low"},
}


@pytest.mark.parametrize("maker", WEB_SEARCHES)
def test_a_providers_own_tool_is_sent_to_that_provider_unchanged(maker: str) -> None:
    tool = WEB_SEARCHES[maker]
    tools = [{**tool, "cache_control": {"type": "ephemeral"}}, {"name": "ls"}]
    request = FORMATS[maker].request(of(maker, ASKS, system="Help."), tools)
    validate(maker, request)
    parse(maker, request)
    assert request["tools"][0] == tool
    meter = RequestMeter(maker)
    assert (
        meter.fixed_tokens("", "", tools).tools - meter.fixed_tokens("", "", tools[1:]).tools
        > BUILT_IN_TOOL_TOKENS
    )


@pytest.mark.parametrize("maker", WEB_SEARCHES)
@CHATTING
def test_a_providers_own_tool_is_sent_to_no_other_provider(maker: str, name: str) -> None:
    if name != maker:
        with pytest.raises(Invalid, match=f"only be sent in the format {maker}"):
            FORMATS[name].tools([WEB_SEARCHES[maker]])


def test_a_repeated_tool_of_a_provider_is_refused() -> None:
    with pytest.raises(Invalid, match="more than one"):
        FORMATS["openai_responses"].tools([WEB_SEARCHES["openai_responses"]] * 2)


@CHATTING
def test_two_tools_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="more than one"):
        FORMATS[name].tools([{"name": "ls"}, {"name": "ls"}])


def test_the_error_of_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(Invalid, match=", ".join(FORMATS)):
        format_named("xml")


def test_the_text_at_the_beginning_has_as_many_tokens_as_the_earlier_one() -> None:
    assert count_tokens(START) == count_tokens(EARLIER_START)
