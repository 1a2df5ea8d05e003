"""A body of millions of wrong values is refused with few errors: each would take memory."""

from typing import Any

import pytest
from pydantic import ValidationError

from historyapp.core.entries import BODIES, BODY, MAX_UNKNOWN

UNKNOWN = {f"field{number}": 1 for number in range(10_000)}
CALL = {"id": "1", "name": "ls"}


@pytest.mark.parametrize(
    "body",
    [
        *({"kind": body.kind_name(), **UNKNOWN} for body in BODIES),
        {"kind": "model_output", "tool_calls": [{**CALL, **UNKNOWN}]},
        {"kind": "model_output", "tool_calls": [1] * 10_000},
        {"kind": "model_output", "use_tool": {"name": "ls", **UNKNOWN}},
        {"kind": "tool_results", "results": [1] * 10_000},
        {"kind": "tool_results", "results": [{"status": "success", **UNKNOWN}]},
        {"kind": "tool_results", "results": [{"status": "error", "error": UNKNOWN}]},
        {"kind": "rewind", "to_position": 1, "spans": [1] * 10_000},
        {"kind": "rewind", "to_position": 1, "spans": [], "older": [1] * 10_000},
    ],
)
def test_many_wrong_values_make_few_errors(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        BODY.validate_python(body)
    assert refused.value.error_count() <= MAX_UNKNOWN
