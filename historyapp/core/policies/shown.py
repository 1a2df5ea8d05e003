"""The texts of a context, with quick answers to which names and lines they contain."""

import re
from collections.abc import Iterable, Iterator, Sequence

from historyapp.core.conversation import texts_of
from historyapp.core.identifiers import (
    UNSPACED,
    contains_name,
    distinct_runs,
    name_in,
    piece_places,
    runs_in,
    word_places,
)
from historyapp.core.policies.parts import ContextPart
from historyapp.core.process_memory import cached_while_busy
from historyapp.core.text import PIECE_LENGTH

MAX_READ = 1 << 23
"""Characters of a context that are read. Names and lines behind them count as not shown."""
MAX_RUNS = 200_000
"""Distinct runs of characters after which no further text is read. Each takes up to 250 bytes."""
MAX_LINES = 200_000
"""The lines of a context with at most this many are collected. Others are searched one by one in its text."""
_SHORT_NAME = 64
"""Characters of a name whose words are cached."""
_WORD = re.compile(r"\w+")
_ONE_RUN = re.compile(r"[\w/.~@+-]+")
"""A name that lies within one run of characters wherever it appears. URLs may not."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
_NOT_IN_WORDS = bytes(code for code in range(128) if not _WORD.match(chr(code)))
_WORDS_ONLY = bytes.maketrans(_NOT_IN_WORDS, b" " * len(_NOT_IN_WORDS))


class ShownTexts:
    """Texts that a model reads. An added text is read at the next question.

    Searching all texts for each name takes longer than the rest of a context. So their distinct runs of
    characters are collected (:func:`historyapp.core.identifiers.distinct_runs`), and a name is looked up
    among them, or searched in the runs that have more than one word.

    A text may have millions of different words. So the texts are read in pieces, and at most
    :data:`MAX_READ` characters of them.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._unread = list(texts)
        self._texts: list[str] = []
        """Those that were read."""
        self._size = 0
        """The characters that were read."""
        self._runs: set[str] = set()
        self._words: set[str] = set()
        self._is_unspaced = False
        """Whether some words of the texts are not separated by blanks."""
        self._compounds: set[str] | None = None
        """The runs that are more than one word. None if they must be collected again, like those below."""
        self._joined_compounds: str | None = None
        self._joined: str | None = None
        self._lines: set[str] = set()

    def add(self, *texts: str) -> None:
        self._unread += texts

    def names(self) -> set[str]:
        """The identifiers of the texts, and other words."""
        if self._unread:
            self._read()
        names = self._runs & self._words
        names.update(map(name_in, self._compound_runs()))
        return names

    def __contains__(self, name: str) -> bool:
        """Whether the texts contain the name as a whole word, and each word of it between blanks or marks."""
        if self._unread:
            self._read()
        words, is_one_run = _words(name)
        return self._words.issuperset(words) and (
            self._is_in_runs(name) if is_one_run else contains_name(name, self._whole())
        )

    def contains_text(self, text: str, names: Sequence[str]) -> bool:
        """Whether one of the texts contains this text.

        Args:
            names: identifiers of the text. If the texts lack one of them, they are not searched.
        """
        whole = self._whole()
        if text in self._lines:
            return True
        last = len(text) - 1
        for name in names if not self._is_unspaced else ():
            # At an edge of the text, the name may be a piece of a longer one.
            if name not in self and any(0 < at < last - len(name) for at in word_places(name, text)):
                return False
        return text in whole

    def _is_in_runs(self, name: str) -> bool:
        if name in self._runs:
            return True
        if self._joined_compounds is None:
            self._joined_compounds = "\n".join(self._compound_runs())
        return contains_name(name, self._joined_compounds)

    def _compound_runs(self) -> set[str]:
        if self._compounds is None:
            self._compounds = self._runs - self._words
        return self._compounds

    def _whole(self) -> str:
        """All texts, joined. Further texts are read first."""
        if self._unread:
            self._read()
        if self._joined is None:
            self._joined = "\n".join(self._texts)
            has_few_lines = self._joined.count("\n") < MAX_LINES
            self._lines = set(self._joined.split("\n")) if has_few_lines else set()
        return self._joined

    def _read(self) -> None:
        texts, self._unread = self._unread, []
        self._compounds = self._joined_compounds = self._joined = None
        for part in self._parts(texts):
            runs, others = distinct_runs(part)
            runs -= self._runs
            words = "\n".join(runs).encode("ascii").translate(_WORDS_ONLY).decode("ascii").split()
            self._words.update(words)
            self._runs |= runs
            if others:
                self._runs.update(runs_in(others))
                self._words.update(_WORD.findall(others))
                self._is_unspaced = self._is_unspaced or _UNSPACED.search(others) is not None

    def _parts(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """The texts that can still be read, in parts of up to twice ``PIECE_LENGTH`` characters."""
        part: list[str] = []
        size = 0
        for text in texts:
            end = 0
            for start, end in piece_places(text):
                if size >= PIECE_LENGTH:
                    yield part
                    part, size = [], 0
                if self._size >= MAX_READ or len(self._runs) >= MAX_RUNS:
                    self._texts.append(text[:start])
                    yield part
                    return
                part.append(text[start:end])
                size += end - start
                self._size += end - start
            self._texts.append(text[:end])
        yield part


def _words(name: str) -> tuple[frozenset[str], bool]:
    """The words of a name, and whether it always lies within one run."""
    return _short_words(name) if len(name) <= _SHORT_NAME else _words_of(name)


def _words_of(name: str) -> tuple[frozenset[str], bool]:
    return frozenset(_WORD.findall(name)), _ONE_RUN.fullmatch(name) is not None


_short_words = cached_while_busy(1 << 15)(_words_of)
"""Cached, because names recur. The words of 64 characters take up to 4 KB."""


class PartTexts:
    """The texts of a context's parts that a model reads, including the arguments of tool calls.

    Args:
        parts: a list to which parts may be added later.
    """

    def __init__(self, parts: Sequence[ContextPart]) -> None:
        self._parts = parts
        self._parts_read: set[int] = set()
        self._texts = ShownTexts()

    def texts(self) -> ShownTexts:
        """The texts of all parts that have been added so far."""
        for part in self._parts:
            if id(part) not in self._parts_read:
                self._parts_read.add(id(part))
                self._texts.add(*texts_of(part.content))
        return self._texts
