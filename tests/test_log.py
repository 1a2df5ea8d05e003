"""The log has one line for each problem and does not repeat the content of requests."""

import logging
import sys
import traceback

from hypothesis import given
from hypothesis import strategies as st

from historyapp.log import OneLine


def logged(message: str, error: Exception | None = None) -> str:
    exc_info = None
    if error is not None:
        try:
            raise error
        except Exception:  # noqa: BLE001  (any error may come to be logged)
            exc_info = sys.exc_info()
    record = logging.LogRecord("historyapp", logging.ERROR, __file__, 1, "%s", (message,), exc_info)
    return OneLine().format(record)


@given(st.text())
def test_whatever_is_logged_is_one_printable_line(message: str) -> None:
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
