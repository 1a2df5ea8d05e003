"""The server's log: one line for each problem, without the content of requests."""

import logging
import re
import traceback
from pathlib import Path

FRAMES = 3
"""Innermost frames of an exception that are logged."""

_FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)


class OneLine(logging.Formatter):
    """``time LEVEL logger: message``, and the type and innermost frames of an exception.

    An exception's message can quote the request (a validation error repeats its input), so it is left out, as
    are all lines of a message after the first. Control characters are escaped.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        message, _, rest = record.getMessage().partition("\n")
        record.message = message
        record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        if record.exc_info and record.exc_info[0]:
            frames = "".join(traceback.format_tb(record.exc_info[2]))
            line += f" [{record.exc_info[0].__name__}{_places(frames)}]"
        elif rest.startswith("Traceback"):  # granian puts it into its message
            kind = rest.rstrip().rpartition("\n")[2].partition(":")[0]
            line += f" [{kind}{_places(rest)}]"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _places(frames: str) -> str:
    """`` at file:line in function < its caller < its caller``, from a traceback's text."""
    innermost = reversed(_FRAME.findall(frames)[-FRAMES:])
    places = [f"{'/'.join(Path(file).parts[-3:])}:{line} in {name}" for file, line, name in innermost]
    return f" at {' < '.join(places)}" if places else ""
