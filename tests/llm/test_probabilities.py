"""Probabilities of tokens are removed from the text of an event; everything else stays as it is."""

import json
from typing import Any

import pytest

from historyapp.llm import probabilities
from historyapp.llm.probabilities import without_probabilities

TOKEN = {
    "token": 'a"[{\\',
    "logprob": -0.1,
    "bytes": [97],
    "top_logprobs": [{"token": "]", "bytes": [1]}] * 2,
}


@pytest.mark.parametrize("indent", [None, 2])
def test_the_probabilities_of_both_apis_are_removed(indent: int | None) -> None:
    def part(tokens: list[Any]) -> dict[str, Any]:
        return {"type": "output_text", "logprobs": tokens, "text": "a"}

    text = json.dumps({"item": {"content": [part([TOKEN] * 3), part([TOKEN])]}, "n": 1}, indent=indent)
    assert json.loads(without_probabilities(text)) == {"item": {"content": [part([]), part([])]}, "n": 1}
    chat = json.dumps(
        {"choices": [{"logprobs": {"content": [TOKEN], "refusal": None}, "delta": {}}]}, indent=indent
    )
    assert json.loads(without_probabilities(chat)) == {"choices": [{"logprobs": {}, "delta": {}}]}


@pytest.mark.parametrize(
    "value",
    [
        {"logprobs": None, "a": [1]},
        {"logprobs": [], "a": {"logprobs": {}}},
        {"text": 'Set "logprobs": [1] here.', "list": ["logprobs", [1]]},
        {"logprobs": "logprobs", "top_logprobs": [1]},
        {"content_block": {"type": "tool_use", "input": {"logprobs": [1, 2]}}},
    ],
)
def test_other_values_stay(value: Any) -> None:
    text = json.dumps(value)
    assert without_probabilities(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"logprobs": [' + "[" * 5000 + "]" * 5000 + "]}",
        '{"logprobs": [{"logprobs": ["' + "x" * 20_000 + '"]}]}',
        '{"logprobs": [{}, {}, {}, {}, {}]}',
        '{"logprobs": [{}, ',
        '{"logprobs": ',
        '{"logprobs"',
        '{"logprobs": [1}',
    ],
)
def test_an_event_with_unusual_probabilities_stays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probabilities, "_MAX_TOKENS", 4)
    assert without_probabilities(text) == text


@pytest.mark.parametrize(("token", "number"), [("1", 10_000), ("[]", 10_000), ('"' + "x" * 600 + '"', 200)])
def test_the_characters_that_are_copied_grow_with_the_text(
    token: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of 400 KB copied 3 GB, and 13 GB with an emoji in it."""
    copied = list[int]()

    def raw_decode(text: str) -> tuple[Any, int]:
        copied.append(len(text))
        return json.JSONDecoder().raw_decode(text)

    monkeypatch.setattr(probabilities, "_raw_decode", raw_decode)
    text = '{"logprobs": [' + ",".join([token] * number) + "]}"
    assert json.loads(without_probabilities(text)) == {"logprobs": []}
    assert sum(copied) <= number * 8 * (512 + len(token))
