"""JSON of very many values is read in small calls, so that other threads run meanwhile."""

import json
from typing import Any

import pytest

from historyapp.core import json as core_json
from historyapp.core.json import load_dumped, parse_strict
from historyapp.core.json_counts import MANY_VALUES
from historyapp.core.standard_json import InvalidNumber

NAMES = {f"n{number}": number % 7 for number in range(MANY_VALUES + 1)}


@pytest.mark.parametrize("last", [1.5, "\ud800", 10**30, None, {"a": [True, "\u00e9"]}])
def test_many_values_are_read_with_the_same_result_and_not_in_one_call(
    last: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {**NAMES, "last": last}
    text = json.dumps(value, separators=(",", ":"))
    for name in ("_decode_fast", "STRICT"):
        monkeypatch.setattr(core_json, name, None)
    assert load_dumped(text) == parse_strict(text) == value


def test_errors_in_many_values_are_those_of_fewer() -> None:
    text = json.dumps(NAMES)
    with pytest.raises(json.JSONDecodeError):
        parse_strict(text[:-1])
    for number in ("1\u0662", "1.\u0662", "\u0662"):  # an Arabic two
        with pytest.raises(json.JSONDecodeError):
            parse_strict(f'{text[:-1]}, "x": {number}}}')
    with pytest.raises(InvalidNumber):
        parse_strict(f'{text[:-1]}, "x": 1e999}}')
