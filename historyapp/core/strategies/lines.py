"""Shortens texts to one line without cutting a name, because a later action cannot use a part of a name."""

from historyapp.core.identifiers import MAX_IDENTIFIER, identifier_places
from historyapp.core.text import clean


def line_of(text: str, max_length: int) -> str:
    """The beginning of a text on one line, with ``…`` if it is cut.

    It ends before a name that does not fit, unless it begins with that name.
    """
    read = text[: 4 * max_length + MAX_IDENTIFIER]
    words = read.split()
    if len(read) < len(text) and len(words) > 1:
        words.pop()  # it may be cut
    line = clean(" ".join(words))
    if len(line) <= max_length and (len(read) == len(text) or len(line) < max_length):
        return line if len(read) == len(text) else f"{line}…"
    end = max(0, max_length - 1)
    first = max(0, end - MAX_IDENTIFIER)
    for place, name in identifier_places(line[first : end + MAX_IDENTIFIER]):
        if 0 < first + place < end < first + place + len(name):
            end = first + place
            break
    return f"{line[:end].rstrip()}…"
