from typing import Any

import pytest
from hypothesis import given

from historyapp.core.content import arguments_of, neutral_content, plain_text
from historyapp.core.conversation import InputMessage
from historyapp.core.formats import FORMATS
from tests.core.entries import JSON, PARTS

OPENAI_IMAGE = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
ANTHROPIC_IMAGE = {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
NEUTRAL_IMAGE = {"type": "image", "url": "https://x.test/a.png"}
PDF = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}


def written(name: str, content: Any) -> Any:
    """Content as a format writes it in a user's message; empty if the content is empty."""
    items = FORMATS[name].write(InputMessage(0, content)).items
    return items[0]["content"] if items else []


@pytest.mark.parametrize(
    ("content", "neutral"),
    [
        (None, ""),
        ("x", "x"),
        ([], ""),
        ([{"type": "text", "text": "x", "cache_control": {}}], "x"),
        (["x"], "x"),
        (
            [{"type": "output_text", "text": "a"}, "b"],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        ([OPENAI_IMAGE], [NEUTRAL_IMAGE]),
        ([ANTHROPIC_IMAGE], [NEUTRAL_IMAGE]),
        ([PDF], [PDF]),
        ([{"type": "text", "text": 7}], [{"type": "text", "text": 7}]),
        ({"odd": 1}, {"odd": 1}),
    ],
)
def test_content_of_any_provider_becomes_neutral(content: Any, neutral: Any) -> None:
    assert neutral_content(content) == neutral


@given(PARTS)
def test_neutral_content_is_unchanged(parts: list[Any]) -> None:
    once = neutral_content(parts)
    assert neutral_content(once) == once


def test_an_image_goes_to_each_provider_in_its_own_form() -> None:
    assert written("openai_chat", [NEUTRAL_IMAGE]) == [OPENAI_IMAGE]
    assert written("anthropic_messages", [NEUTRAL_IMAGE]) == [ANTHROPIC_IMAGE]


def test_blocks_of_another_provider_are_named() -> None:
    assert written("openai_chat", [PDF]) == [{"type": "text", "text": "[document]"}]
    assert written("anthropic_messages", [PDF]) == [PDF]


def test_white_space_makes_no_part() -> None:
    assert written("openai_chat", [{"type": "text", "text": " "}]) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("x", "x"),
        (None, ""),
        ([{"type": "text", "text": "a"}, NEUTRAL_IMAGE], "a\n\n[image]"),
        ([{"type": "web_search_result", "url": "u"}], '{"type":"web_search_result","url":"u"}'),
        ([1, 2], "[1,2]"),
        ({"a": None}, '{"a":null}'),
    ],
)
def test_any_content_has_a_text(content: Any, text: str) -> None:
    assert plain_text(content) == text


@given(JSON | PARTS)
def test_writing_content_never_fails(content: Any) -> None:
    plain_text(content)
    written("openai_chat", content)
    written("anthropic_messages", content)
    neutral_content(content)


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a"}, {"path": "a"}),
        (None, {}),
        ("", {}),
        ("*** Begin Patch", "*** Begin Patch"),
        ("[1, 2]", "[1, 2]"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ('{"a": 1} tail', '{"a": 1} tail'),
        ("{" + '"a":{' * 5000, "{" + '"a":{' * 5000),
    ],
)
def test_arguments_are_an_object_or_the_raw_text(raw: object, arguments: object) -> None:
    assert arguments_of(raw) == arguments
