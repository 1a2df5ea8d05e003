"""Splits texts into the tokens that a search compares, equally for every database.

A token is a part of a name or a word, in lower case: ``EnsureSetup`` gives ``ensure`` and ``setup``,
``hooks_test.go`` gives ``hooks``, ``test`` and ``go``. Texts that are written without spaces, as Chinese
and Japanese are, give a token for each character. Names that are written in one word, such as
``EnsureSetup``, can also be found as a whole, whatever their case.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from historyapp.core.process_memory import cached_while_busy

MAX_TOKEN = 40
"""Characters of a token. Longer ones are cut."""
_RUN = re.compile(r"[A-Za-z0-9]+")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])[0-9]*")
_ACCENTS = re.compile("[\u0300-\u036f\u064b-\u0655\u0670\u0640]+")
_MAX_SPELLED = 4 * MAX_TOKEN
"""Characters of a run that are spelled plainly. Unicode's order of marks takes quadratic time for a run of
marks, in one call during which no other thread of the process runs."""
_MIN_BLOB = 12
"""A run with at least this many characters may be encoded data, which is not split."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
"""Characters of scripts without spaces between words, and of Korean, whose words have endings."""


class TokenPiece(NamedTuple):
    """The tokens of a run of letters and digits, and its place in the text."""

    tokens: tuple[str, ...]
    start: int
    end: int


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, in order."""
    if text.isascii():
        tokens: list[str] = []
        for run in _RUN.findall(text):
            if (run.islower() or run.isdigit()) and len(run) <= MAX_TOKEN:
                tokens.append(run)
            else:
                tokens += parts_of(run)
        return tokens
    return [token for run in _any_run().findall(text) for token in parts_of(run)]


def token_pieces(text: str, start: int = 0, end: int | None = None) -> Iterator[TokenPiece]:
    """The tokens of a part of a text, with their places."""
    for match in _any_run().finditer(text, start, len(text) if end is None else end):
        yield TokenPiece(parts_of(match[0]), match.start(), match.end())


def compound_names(text: str) -> Iterator[str]:
    """The names of a text that ``token_pieces`` splits, each as one token."""
    runs = _RUN.findall(text) if text.isascii() else _any_run().findall(text)
    for run in set(runs):
        if not run.islower() and len(run) <= MAX_TOKEN and len(parts_of(run)) > 1:
            yield run.lower()


def parts_of(run: str) -> tuple[str, ...]:
    """The tokens of a run of letters and digits; encoded data stays one token."""
    return _short_parts_of(run) if len(run) <= 2 * MAX_TOKEN else _parts_of(run)


def _parts_of(run: str) -> tuple[str, ...]:
    if not run.isascii():
        token = _spelled_plainly(run)[:MAX_TOKEN]
        return (token,) if token else ()
    parts = _PART.findall(run) if len(run) <= 2 * MAX_TOKEN else [run]
    if len(run) >= _MIN_BLOB and len(parts) * 3 > len(run):
        parts = [run]
    return tuple([part[:MAX_TOKEN].lower() for part in parts])


_short_parts_of = cached_while_busy(1 << 15)(_parts_of)
"""Cached, because the words of a project recur. Longer runs would take too much memory."""


def is_unspaced(token: str) -> bool:
    """Whether the token is one character of a text without spaces."""
    return len(token) == 1 and not token.isascii() and _unspaced().match(token) is not None


def phrase_places(
    pieces: Iterable[TokenPiece], phrase: tuple[str, ...], *, is_prefix: bool
) -> Iterator[range]:
    """The places where the tokens follow each other, as ranges of characters."""
    newest: list[tuple[str, int, int]] = []
    for piece in pieces:
        for token in piece.tokens:
            newest.append((token, piece.start, piece.end))
            newest = newest[-len(phrase) :]
            if len(newest) == len(phrase) and _equal([token for token, _, _ in newest], phrase, is_prefix):
                yield range(newest[0][1], newest[-1][2])
        whole = "".join(piece.tokens)
        if len(piece.tokens) > 1 and _equal([whole], phrase, is_prefix):
            yield range(piece.start, piece.end)


def _equal(tokens: list[str], phrase: tuple[str, ...], is_prefix: bool) -> bool:
    if not is_prefix:
        return tuple(tokens) == phrase
    return (
        tuple(tokens[:-1]) == phrase[:-1] and len(tokens) == len(phrase) and tokens[-1].startswith(phrase[-1])
    )


def is_in_a_token(part: str, text: str) -> bool:
    """Whether a token of the text's words outside ASCII contains this part."""
    runs = set(_any_run().findall(text))
    return any(part in token for run in runs if not run.isascii() for token in parts_of(run))


def _spelled_plainly(run: str) -> str:
    """The beginning of a run in the spelling of tokens: without case, accents, Arabic vowel signs and wide
    forms."""
    kept = _ACCENTS.sub("", unicodedata.normalize("NFKD", run[:_MAX_SPELLED]))
    spelled = unicodedata.normalize("NFC", kept).casefold()
    if spelled.isalnum():
        return spelled
    # Some letters are spelled with spaces or brackets, at which databases would divide the token again.
    return "".join(
        [letter for letter in spelled if letter.isalnum() or unicodedata.category(letter)[0] == "M"]
    )


@cache
def _any_run() -> "re.Pattern[str]":
    """Matches a run of letters, digits and marks, or one character of a text without spaces."""
    marks = "".join(
        [chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"]
    )
    return re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])(?:[^\\W_]|[{marks}]))+")


@cache
def _unspaced() -> "re.Pattern[str]":
    return re.compile(f"[{_UNSPACED}]")
