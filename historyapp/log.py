"""The server's log: one line per problem, and never what an agent sent."""

import logging
import traceback
from pathlib import Path
from types import TracebackType

FRAMES = 3


class OneLine(logging.Formatter):
    """``time LEVEL logger: message``; of an exception its type and the innermost frames.

    An exception's own message can quote the request (a validation error repeats its input), so it stays out.
    Control characters are escaped: neither a path nor a header can forge a second line.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        if record.exc_info and record.exc_info[0]:
            line += f" [{record.exc_info[0].__name__} {_innermost(record.exc_info[2])}]"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def _innermost(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-FRAMES:]
    places = [f"{'/'.join(Path(f.filename).parts[-3:])}:{f.lineno} in {f.name}" for f in reversed(frames)]
    return "at " + " < ".join(places) if places else "outside any call"
