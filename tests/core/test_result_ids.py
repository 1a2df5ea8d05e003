"""The ids in stored results."""

import pytest

from historyapp.core.entries import ToolResult, ToolResults, dump_body
from historyapp.core.json import dump_json
from historyapp.core.result_ids import read_result_ids


@pytest.mark.parametrize("outputs", ["text", None, {"results": [{"tool_call_id": "x"}]}, "\ud800", [1e300]])
@pytest.mark.parametrize("overall", [None, "", "well", "\udfff"])
def test_ids_are_read_without_the_outputs(outputs: object, overall: str | None) -> None:
    results = [
        ToolResult(tool_call_id=id, status="success", outputs=outputs) for id in ("a", None, "é", "\ud801")
    ]
    for count in (1, 3, 4):
        stored = dump_json(dump_body(ToolResults(results=tuple(results[:count]), overall=overall)))
        assert read_result_ids(stored) == (("a", None, "é", "\ud801")[:count], bool(overall))
