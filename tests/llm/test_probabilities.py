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
