"""Identifiers: the names in a text that a later action may have to write again, letter by letter.

Paths, file names, URLs, dotted, snake_case and camelCase names, hashes, and numbers of three digits or more.
A model can paraphrase everything else, but needs the exact spelling of identifiers. So a context must not
lose them.
"""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from historyapp.core.process_memory import cached_while_busy
from historyapp.core.text import PIECE_LENGTH

MAX_IDENTIFIER = 200
"""Characters; longer runs are encoded data rather than names."""

_FEW_PLACES = 100
"""Places of a name in a text that are visited one by one, in 0.3 µs each. A pattern finds the others. It
takes 30 µs to compile and 20 ns for each place."""
_SEEN_TWICE = 2 * MAX_IDENTIFIER
"""Characters that two pieces share if no character near the end of the first one ends a name."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Thai, Lao, Burmese, Hangul jamo, Khmer
    "\u3005-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"  # Japanese, Chinese, Hangul
)
"""Letters of scripts that are written without spaces between words, also next to names in Latin letters."""
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_BORDER = re.compile(rf"[{UNSPACED}][A-Za-z0-9]|[A-Za-z0-9][{UNSPACED}]")
_RUN = re.compile(
    r"https?://[^\s\"'<>()\[\]{}`|\\,]+"
    rf"|[\w/.~@+-](?:(?<![A-Za-z0-9])[{UNSPACED}]|(?<![{UNSPACED}])[A-Za-z0-9]|[^\W{UNSPACED}A-Za-z0-9]|[/.~@+-]){{2,}}"
)
_SHAPE = re.compile(
    r"://|[\w.]/\w|^[~/]+\w|[A-Za-z]\.\w|\w\.[A-Za-z]|[A-Za-z\d]_\w|[a-z][A-Z]|\d{3}|^(?=.*\d)[0-9a-f]{7,}$"
)
_TO_END_OF_URL = re.compile(r".*[\s\"'<>()\[\]{}`|\\,]", re.DOTALL)
_TO_END_OF_RUN = re.compile(r".*[^\w/.~@+-]", re.DOTALL)
_DEVICE = re.compile(r"/dev/(?:null|zero|full|u?random|console|ptmx|tty\w*|std(?:in|out|err)|(?:fd|pts)/\d+)")
_EDGES = ".-+@"
_SEPARATING = "".join(sorted(set(string.punctuation) - set("_/.~@+-")))
_BLANKED = bytes.maketrans(_SEPARATING.encode(), b" " * len(_SEPARATING))
_LETTER = re.compile(rf"[^\W\x00-\x7f]|[{UNSPACED}]")
"""A character outside ASCII that can be part of a name."""
_ASCII = bytes(range(128))
_NOT_CONTROLS = bytes(code for code in range(256) if chr(code) in "\t\n\v\f\r" or 28 <= code != 127)


def identifiers(text: str) -> list[str]:
    """Each identifier of the text once, in the order of first appearance."""
    if len(text) > PIECE_LENGTH:
        pieces = (text[start:end] for start, end in piece_places(text))
        return list(dict.fromkeys(name for piece in pieces for name in identifiers(piece)))
    names = dict.fromkeys(map(name_in, dict.fromkeys(_runs(text))))
    names.pop("", None)
    return list(names)


def is_device(name: str) -> bool:
    """Whether a name is a device that Unix systems have, so that it needs no origin."""
    return bool(_DEVICE.fullmatch(name))


def piece_places(text: str) -> Iterator[tuple[int, int]]:
    """The start and the end of pieces of a text. They have at most :data:`PIECE_LENGTH` characters, and each
    name is whole in one of them.

    A piece ends where a URL or another name ends. A run that is too long for a name may be cut anywhere; then
    the next piece begins with the end of this one, so that the rest of the run is not taken for a name. The
    rest of a URL of more than half a piece is read like other text.
    """
    start = 0
    while len(text) - start > PIECE_LENGTH:
        end = start + PIECE_LENGTH
        last = _TO_END_OF_URL.match(text, start + PIECE_LENGTH // 2, end)
        last = last or _TO_END_OF_RUN.match(text, start + PIECE_LENGTH // 2, end)
        yield start, last.end() if last else end
        start = last.end() if last else end - _SEEN_TWICE
    yield start, len(text)


def new_identifiers(lines: Sequence[str]) -> Iterator[list[str]]:
    """For each line, its identifiers that no earlier line contains."""
    runs: set[str] = set()
    names = {""}
    seen = {""}
    for line, split in _splittable(lines):
        new = []
        if line not in seen:
            seen.add(line)  # results repeat lines: a search costs less than splitting the line again
            for run in split(line):
                if run not in runs:
                    runs.add(run)
                    if (name := name_in(run)) not in names:
                        names.add(name)
                        new.append(name)
        yield new


def _splittable(lines: Sequence[str]) -> Iterator[tuple[str, Callable[[str], Iterable[str]]]]:
    """Each line in a form that the function splits into runs of characters that can be names."""
    # All lines are prepared at once if all of them can be split at blanks.
    blanked = _blanked("\n".join(lines))
    if blanked is not None and blanked.count("\n") == len(lines) - 1:
        return zip(blanked.split("\n"), repeat(str.split))
    return zip(lines, repeat(_runs))


def distinct_runs(texts: Iterable[str]) -> tuple[set[str], str]:
    """Runs of characters that can be names, each once. Takes less time than :func:`identifiers`.

    Returns:
        the runs of the lines without a URL and without letters outside ASCII, also runs that are too short
        for a name; and the other lines, whose runs :func:`runs_in` finds.
    """
    plain: list[str] = []
    mixed: list[str] = []
    others: list[str] = []
    for text in texts:
        (plain if text.isascii() and "://" not in text else mixed).append(text)
    if mixed:
        text = "\n".join(mixed)
        encoded = text.encode("utf-8", "surrogatepass")
        symbols = encoded.translate(None, _ASCII).decode("utf-8", "ignore")  # lone surrogates
        if encoded.translate(None, _NOT_CONTROLS) or _LETTER.search(symbols):
            for line in text.split("\n"):
                (plain if line.isascii() and "://" not in line else others).append(line)
        else:
            text, others = _without_urls(text)
            plain.append(text.encode("ascii", "replace").decode("ascii"))  # question marks are no letters
    blanked = "\n".join(plain).encode("ascii").translate(_BLANKED).decode("ascii")
    return set(blanked.split()), "\n".join(others)


def _without_urls(text: str) -> tuple[str, list[str]]:
    """The lines without a URL as one text, and the lines with one."""
    kept, lines = [], []
    start = 0
    while (at := text.find("://", start)) >= 0:
        first, end = text.rfind("\n", start, at) + 1 or start, text.find("\n", at)
        end = len(text) if end < 0 else end
        kept.append(text[start:first])
        lines.append(text[first:end])
        start = min(end + 1, len(text))
    return "\n".join([*kept, text[start:]]), lines


def runs_in(text: str) -> list[str]:
    """Runs of characters that can be names, in any text."""
    return _RUN.findall(text)


def _runs(text: str) -> Iterable[str]:
    """Runs of characters that can be names."""
    if len(text) > PIECE_LENGTH:
        return (run for start, end in piece_places(text) for run in _runs(text[start:end]))
    blanked = _blanked(text)
    if blanked is not None:
        return blanked.split()
    if "\n" not in text:
        return _RUN.findall(text)
    return [run for line in text.split("\n") for run in _runs(line)]  # most lines are ASCII without a URL


def _blanked(text: str) -> str | None:
    """The text with its separators replaced by blanks; None if it is not ASCII or has a URL.

    Splitting is several times faster than matching. Bytes are translated by a table at once.
    """
    if not text.isascii() or "://" in text:
        return None
    return text.encode("ascii").translate(_BLANKED).decode("ascii")


def name_in(run: str) -> str:
    """The identifier in a run of characters without blanks; empty if there is none."""
    return _short_name_in(run) if len(run) <= MAX_IDENTIFIER else ""


@cached_while_busy(1 << 15)
def _short_name_in(run: str) -> str:
    """Cached, because the words of a session recur."""
    name = run.strip(_EDGES)
    name = (name.removeprefix("/") if run.startswith("./") else name).rstrip("/.")
    return name if len(name) >= 3 and _SHAPE.search(name) else ""


def identifier_places(text: str) -> Iterator[tuple[int, str]]:
    """The start of each occurrence of each identifier."""
    for start, end in piece_places(text):
        for match in _RUN.finditer(text, start, end):
            if name := name_in(match[0]):
                yield match.start() + match[0].index(name), name


def contains_name(name: str, text: str) -> bool:
    """Whether the text contains the name as a whole word: no letter, digit or underscore adjoins it.

    Letters of a script without blanks may adjoin Latin ones: ``修改app.py文件`` contains ``app.py``.
    """
    return next(word_places(name, text), None) is not None


def word_places(name: str, text: str) -> Iterator[int]:
    """Where the name begins as a whole word; see :func:`contains_name`."""
    start = text.find(name)
    for _ in range(_FEW_PLACES):
        if start < 0:
            return
        if is_whole_word(text, start, start + len(name)):
            yield start
        start = text.find(name, start + 1)
    if start >= 0:  # in a_a_a_a, a_a begins at each second character, but not as a whole word
        pattern = re.compile(_whole_word(name))
        while match := pattern.search(text, start):
            yield match.start()
            start = match.start() + 1


def _whole_word(name: str) -> str:
    """A pattern for the name as a whole word. It begins with the name, because :mod:`re` is many times
    quicker with such patterns."""
    literal = re.escape(name)
    return rf"{literal}(?!{_adjoining(name[-1])})(?<!{_adjoining(name[0])}{literal})"


def _adjoining(character: str) -> str:
    """A pattern for the characters that belong to one word with this one; see :func:`_adjoin`."""
    if not _is_word(character):
        return "(?!)"
    if character.isascii() and character != "_":
        return rf"[^\W{UNSPACED}]"
    return r"[^\WA-Za-z0-9]" if _IS_UNSPACED.match(character) else r"\w"


def is_whole_word(text: str, start: int, end: int) -> bool:
    """Whether no letter, digit or underscore adjoins a name between two places; see :func:`contains_name`."""
    is_joined = _adjoin(text[start - 1 : start], text[start]) or _adjoin(text[end - 1], text[end : end + 1])
    return not is_joined


def _adjoin(left: str, right: str) -> bool:
    """Whether two characters that follow each other belong to one word."""
    if not (_is_word(left) and _is_word(right)):
        return False
    return (left + right).isascii() or _BORDER.fullmatch(left + right) is None


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, in order, without the names of fields. Numbers are converted to texts."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item))
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield str(item)
