"""Beginnings of texts on one line in which no name is cut: no later action can use a part of a name."""

from historyapp.core.identifiers import MAX_IDENTIFIER, identifier_places
from historyapp.core.text import clean


def line_of(text: str, longest: int) -> str:
    """The beginning of a text on one line, marked where it is cut.

    It ends before a name that would be cut, unless it begins with that name.
    """
    read = text[: 4 * longest + MAX_IDENTIFIER]
    words = read.split()
    if len(read) < len(text) and len(words) > 1:
        words.pop()  # it may be cut
    line = clean(" ".join(words))
    if len(line) <= longest and (len(read) == len(text) or len(line) < longest):
        return line if len(read) == len(text) else f"{line}…"
    end = max(0, longest - 1)
    first = max(0, end - MAX_IDENTIFIER)
    for place, name in identifier_places(line[first : end + MAX_IDENTIFIER]):
        if 0 < first + place < end < first + place + len(name):
            end = first + place
            break
    return f"{line[:end].rstrip()}…"
