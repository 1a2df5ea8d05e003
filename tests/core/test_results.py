"""Results as text and exceptions as data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from historyapp.core.entries import ToolResult
from historyapp.core.json import dump_json
from historyapp.core.results import (
    ActionError,
    ActionInterrupted,
    ActionResult,
    ActionSuccess,
    as_tool_result,
    from_exception,
    result_text,
)

RESULT: TypeAdapter[Any] = TypeAdapter(ActionResult)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"status": "success", "outputs": {"a": 1}}, ActionSuccess),
        ({"status": "success"}, ActionSuccess),
        ({"status": "error", "reason": "no"}, ActionError),
        ({"status": "interrupted_by_human", "feedback": "stop"}, ActionInterrupted),
    ],
)
def test_the_status_tells_the_three_results_apart(data: dict[str, Any], kind: type) -> None:
    assert type(RESULT.validate_python(data)) is kind


@pytest.mark.parametrize(
    "data",
    [
        {"status": "maybe"},
        {"outputs": 1},
        {"status": "error"},
        {"status": "interrupted_by_human", "outputs": 1},
        {"status": "success", "reason": "x"},
    ],
)
def test_a_result_that_is_none_of_the_three_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RESULT.validate_python(data)


class _Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class _Without(Exception):
    args = None  # type: ignore[assignment]


class _Failing(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class _Odd:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    "exception",
    [
        ValueError("x"),
        KeyError(),
        OSError(2, "gone", "f.txt"),
        _Broken(_Odd()),
        SystemExit(3),
        Exception(b"\xff"),
        Exception(nested(500)),
        _Without(),
        _Failing(),
    ],
)
def test_every_exception_becomes_data(exception: BaseException) -> None:
    details = from_exception(exception)
    assert details.exception_type == type(exception).__name__
    dump_json(details.model_dump())
    result = as_tool_result(ActionError(reason="it broke", error=details), "run")
    assert ToolResult.model_validate(result.model_dump()) == result


@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.none(), st.builds(object))))
def test_an_exception_s_arguments_can_be_anything(arguments: list[Any]) -> None:
    details = from_exception(RuntimeError(*arguments))
    assert len(details.args) == len(arguments)
    dump_json(details.model_dump())


def test_an_exception_is_shown_as_people_know_it() -> None:
    details = from_exception(ValueError("bad", 3))
    assert (details.message, details.repr) == ("('bad', 3)", "ValueError('bad', 3)")
    assert details.args == ["bad", 3]


def test_a_skipped_call_says_why() -> None:
    assert (
        result_text(ToolResult(status="skipped", reason="not needed"))
        == "The action was skipped: 'not needed'"
    )
