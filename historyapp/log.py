"""The server's log: one line for each problem or request, without the content of requests."""

import json
import logging
import re
import secrets
import traceback
from contextvars import ContextVar
from pathlib import Path

FRAMES = 3
"""The number of innermost frames of an exception that are logged."""

_FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)
# No underscore, so that an API key in the wrong header is never logged.
_REQUEST_ID = re.compile(r"[A-Za-z0-9.-]{8,64}")

_LINK = re.compile(r"/(s|sign-in)/.*")
"""A path with a token, up to the end of the line: spaces can be part of a path."""

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of this thread's request; empty outside requests."""


def new_request_id(requested: str = "") -> str:
    """The client's id if it is 8 to 64 letters, digits, dots and hyphens, otherwise a new id."""
    return requested if _REQUEST_ID.fullmatch(requested) else secrets.token_hex(8)


class OneLine(logging.Formatter):
    """``time LEVEL logger: message``, and the type and innermost frames of an exception.

    Messages of exceptions are left out, because they can quote the request: a validation error repeats its
    input. For the same reason, only the first line of a message is logged. Control characters are escaped.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        record.message = first_line(record)
        record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        if trace := exception_of(record):
            kind, locations = trace
            line += f" [{kind}{f' at {locations}' if locations else ''}]"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


class JsonLine(logging.Formatter):
    """Like :class:`OneLine`, as a JSON object: ``time``, ``level``, ``logger``, ``message``, ``request_id``,
    ``exception``. The lines of requests have more fields.
    """

    def __init__(self) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname,
            "logger": record.name,
            "message": first_line(record),
        }
        if id := request_id.get():
            line["request_id"] = id
        if trace := exception_of(record):
            line["exception"], line["at"] = trace
        return json.dumps({**line, **getattr(record, "fields", {})})


def first_line(record: logging.LogRecord) -> str:
    """The first line of the message, without tokens of links. Other lines can quote a request."""
    return hide_links(record.getMessage().partition("\n")[0])


def hide_links(text: str) -> str:
    """Removes what follows ``/s/`` or ``/sign-in/``. Django logs the path of each request that fails."""
    return _LINK.sub(r"/\1/…", text)


def exception_of(record: logging.LogRecord) -> tuple[str, str] | None:
    """The type and place of a record's exception, or None."""
    if record.exc_info and record.exc_info[0]:
        return record.exc_info[0].__name__, _places("".join(traceback.format_tb(record.exc_info[2])))
    other_lines = record.getMessage().partition("\n")[2]
    if other_lines.startswith("Traceback"):  # granian includes the traceback in its message
        kind = other_lines.rstrip().rpartition("\n")[2].partition(":")[0]
        return hide_links(kind), _places(other_lines)
    return None


def _places(frames: str) -> str:
    """``file:line in function < its caller < its caller``, from a traceback's text."""
    innermost = reversed(_FRAME.findall(frames)[-FRAMES:])
    return " < ".join(f"{'/'.join(Path(file).parts[-3:])}:{line} in {name}" for file, line, name in innermost)
