"""The ids in stored results, read without their texts: pairing results with tool calls needs no more."""

from typing import NamedTuple

import msgspec

from historyapp.core.json import load_fields


class ResultIds(NamedTuple):
    """What is read of an entry with results."""

    ids: tuple[str | None, ...]
    """The tool call ID of each result, in their order."""
    has_remark: bool
    """Whether it has a remark on the results as a whole."""


class _Result(msgspec.Struct, gc=False):
    tool_call_id: str | None = None


class _Results(msgspec.Struct):
    results: list[_Result]
    overall: str | None = None


_decode = msgspec.json.Decoder(_Results).decode


def read_result_ids(stored: str) -> ResultIds:
    """The ids in a stored body of results. No values are created for outputs.

    Raises:
        ValueError: when it is not JSON.
    """
    try:
        read = _decode(stored)
    except ValueError:  # lone surrogates
        fields = load_fields(stored, ("results", "overall"))
        ids = tuple([result.get("tool_call_id") for result in fields["results"]])
        return ResultIds(ids, bool(fields.get("overall")))
    return ResultIds(tuple([result.tool_call_id for result in read.results]), bool(read.overall))
