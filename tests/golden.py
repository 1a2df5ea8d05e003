"""Recorded behaviour of the earlier episodic history."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.shared import SHARED

PATH = "golden/episodic_history.json"
COUNTERS: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "chars_div_4": lambda text: len(text) // 4,
}


def records() -> dict[str, Any]:
    path = SHARED / PATH
    return json.loads(path.read_text()) if path.exists() else {"cases": [], "result_str_cases": []}


def cases(every: int = 1) -> list[Any]:
    """Each case, named by its id, for ``pytest.mark.parametrize``; all but one in ``every`` are thorough."""
    numbered = enumerate(records()["cases"])
    return [
        pytest.param(case, id=case["id"], marks=[pytest.mark.thorough] if number % every else [])
        for number, case in numbered
    ]
