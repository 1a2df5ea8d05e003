"""The log has one line for each problem and does not repeat the content of requests."""

import json
import logging
import sys
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.log import JsonLine, OneLine, new_request_id, request_id


def logged(message: str, error: Exception | None = None) -> str:
    return OneLine().format(record_of(message, error))


def record_of(message: str, error: Exception | None = None, **extra: Any) -> logging.LogRecord:
    exc_info = None
    if error is not None:
        try:
            raise error
        except Exception:  # noqa: BLE001  (any error may come to be logged)
            exc_info = sys.exc_info()
    record = logging.LogRecord("historyapp", logging.ERROR, __file__, 1, "%s", (message,), exc_info)
    record.__dict__.update(extra)
    return record


@given(st.text())
def test_every_log_record_is_one_printable_line(message: str) -> None:
    assert logged(message).isprintable()


def test_an_exception_is_logged_with_its_type_and_place_only() -> None:
    line = logged("Internal Server Error: /api/v1/sessions", ValueError("ph_secret in the body"))
    assert "ph_secret" not in line
    assert "[ValueError at " in line
    assert "tests/test_log.py" in line


def test_a_traceback_inside_a_message_is_logged_with_its_type_and_place_only() -> None:
    try:
        raise LookupError("ph_secret in the body")
    except LookupError:
        line = logged("Application callable raised an exception\n" + traceback.format_exc())
    assert "ph_secret" not in line
    assert "raised an exception [LookupError at " in line
    assert "tests/test_log.py" in line


@pytest.mark.parametrize("formatter", [OneLine(), JsonLine()])
@pytest.mark.parametrize("prefix", ["/s/", "/sign-in/", "https://history.example.org/playhead/s/"])
def test_the_token_of_a_link_is_not_logged(formatter: logging.Formatter, prefix: str) -> None:
    line = formatter.format(record_of(f"Forbidden: {prefix}a-secret/sessions/x y/a-secret"))
    assert "a-secret" not in line
    assert f"Forbidden: {prefix}" in line
    granians = "Application callable raised an exception\nTraceback (most recent call last):\nDetail\n"
    assert "a-secret" not in formatter.format(record_of(f"{granians}{prefix}a-secret/"))


@given(st.text())
def test_a_line_in_json_is_one_object_with_the_first_line_of_the_message(message: str) -> None:
    line = JsonLine().format(record_of(message))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == message.partition("\n")[0]


def test_a_line_in_json_has_the_exceptions_type_and_place_only() -> None:
    line = JsonLine().format(record_of("Failed", ValueError("ph_secret in the body")))
    assert "ph_secret" not in line
    logged = json.loads(line)
    assert (logged["level"], logged["logger"], logged["exception"]) == ("ERROR", "historyapp", "ValueError")
    assert "tests/test_log.py" in logged["at"]


def test_a_line_in_json_has_the_requests_id_and_fields() -> None:
    token = request_id.set("5f2c9d0a71b3e846")
    try:
        logged = json.loads(JsonLine().format(record_of("GET", fields={"status": 200})))
    finally:
        request_id.reset(token)
    assert (logged["request_id"], logged["status"]) == ("5f2c9d0a71b3e846", 200)


@pytest.mark.parametrize("given_id", ["01978b6e-5a3e-7c11-9d3b-2f6f0a1b2c3d", "a.b-c.D12"])
def test_a_well_formed_request_id_is_kept(given_id: str) -> None:
    assert new_request_id(given_id) == given_id


@pytest.mark.parametrize(
    "given_id", ["", "short", "x" * 65, "ph_0123456789abcdef", "a b c d e f", "line\nbreak", "ünicode-id"]
)
def test_any_other_request_id_is_replaced_by_a_new_one(given_id: str) -> None:
    made = new_request_id(given_id)
    assert made != given_id
    assert new_request_id(made) == made
    assert made != new_request_id(given_id)
