"""Reads a provider's server-sent events, in time that is proportional to their bytes.

The SDKs' decoders accept events of any size, and Anthropic's copies the event for each of its lines.
"""

from collections.abc import Iterable, Iterator

MAX_EVENT = 16 * 1024 * 1024
"""The maximum size of one event, in bytes. The last event of OpenAI's Responses API holds the whole
response: its text, its images and the request's instructions and tools.
"""


class EventTooLong(Exception):
    """An event has more than :data:`MAX_EVENT` bytes."""


def read_events(parts: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yields the name and the data of each event with data.

    Raises:
        EventTooLong: if an event, with its comments, is too long.
        UnicodeDecodeError: if an event is not UTF-8.
    """
    name, data = b"", list[bytes]()
    for line in _lines(parts):
        if not line:
            if data:
                yield name.decode(), b"\n".join(data).decode()
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        if field == b"event":
            name = value.removeprefix(b" ")
        elif field == b"data":
            data.append(value.removeprefix(b" "))


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without their ends: LF, CR, or both. The last one counts only if it has an end."""
    line, size, ended_with_cr = list[bytes](), 0, False
    for part in parts:
        rest = part[1:] if ended_with_cr and part.startswith(b"\n") else part
        ended_with_cr = part.endswith(b"\r")
        for piece in rest.splitlines(keepends=True):
            line.append(piece)
            size += len(piece)
            if size > MAX_EVENT:
                raise EventTooLong
            if piece.endswith((b"\n", b"\r")):
                text = b"".join(line).rstrip(b"\r\n")
                line = []
                yield text
                size = size if text else 0
