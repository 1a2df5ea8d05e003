"""Searches texts for many names at once. The time depends on the length of the texts, not on the number of
names or on how often a text almost contains one.

It is the automaton of Aho and Corasick (1975) over whole words and single marks instead of characters. So a
long word that contains a name many times is one symbol. Libraries search for characters: they report a name
inside of a word too, and many overlapping names at each character.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from historyapp.core.identifiers import UNSPACED, word_places

_SYMBOL = re.compile(r"\w+|\s+|[^\w\s]")
_BORDER = re.compile(
    rf"(?<=[{UNSPACED}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[{UNSPACED}])"  # see identifiers.contains_name()
)
_AT_ONCE = 1 << 14
"""Symbols that are read between two calls of ``keep_alive``."""
_FEW = 1 << 20
"""Below this product of names and characters, searching for one name after the other is faster."""


def first_places(names: Iterable[str], text: str, limit: int) -> dict[str, list[int]]:
    """Where the names begin as whole words, see :func:`historyapp.core.identifiers.word_places`.

    Args:
        limit: the maximum number of places of each name.

    Returns:
        the first places of each name that the text contains.
    """
    names = list(names)
    if len(names) * len(text) > _FEW:
        return NameSearch(names).find(text, limit)
    places = ((name, list(islice(word_places(name, text), limit))) for name in names)
    return {name: found for name, found in places if found}


class NameSearch:
    """A search through texts, for each name until the first text that contains it.

    A state stands for the longest end of the text read so far that is the beginning of a name.

    Args:
        names: identifiers, which contain no blanks.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._next: dict[tuple[int, str], int] = {}
        """The state that follows a state and a symbol."""
        self._names: dict[int, str] = {}
        """The names that are still searched for, by the state in which they end."""
        children: list[list[tuple[str, int]]] = [[]]
        self._longest = 0
        for name in dict.fromkeys(names):
            state = 0
            self._longest = max(self._longest, len(name))
            for _, symbol in _symbols(name, len(name)):
                parent, state = state, self._next.setdefault((state, symbol), len(children))
                if state == len(children):
                    children.append([])
                    children[parent].append((symbol, state))
            self._names[state] = name
        self._shorter = self._shorter_states(children)
        """For each state, the one for the next shorter end of the text."""
        self._ending = list(self._shorter)
        """The same without most states in which no name ends, see :meth:`_longest_name`."""

    def _shorter_states(self, children: list[list[tuple[str, int]]]) -> list[int]:
        shorter = [0] * len(children)
        states = [state for _, state in children[0]]
        for state in states:  # grows: states with fewer symbols come first
            for symbol, child in children[state]:
                shorter[child] = self._after(shorter[state], symbol, shorter)
                states.append(child)
        return shorter

    def _after(self, state: int, symbol: str, shorter: list[int]) -> int:
        while (following := self._next.get((state, symbol))) is None:
            if not state:
                return 0
            state = shorter[state]
        return following

    @property
    def is_done(self) -> bool:
        """Whether all names were found."""
        return not self._names

    def find(
        self, text: str, limit: int, keep_alive: Callable[[], object] = lambda: None
    ) -> dict[str, list[int]]:
        """The first places of the names that no earlier text contained, at most ``limit`` for each name.

        Args:
            keep_alive: called often. It may raise an exception to end the search.
        """
        places: dict[str, list[int]] = {}
        symbols = _symbols(text, self._longest)
        following, shorter = self._next, self._shorter
        state = 0
        while self._names and (portion := list(islice(symbols, _AT_ONCE))):
            keep_alive()
            for end, symbol in portion:
                while (after := following.get((state, symbol))) is None and state:
                    state = shorter[state]
                if after is not None:
                    state = after
                    self._add_places(places, state, end, limit)
        found = places.keys()
        self._names = {state: name for state, name in self._names.items() if name not in found}
        return places

    def _add_places(self, places: dict[str, list[int]], state: int, end: int, limit: int) -> None:
        """Adds the place of each name that ends here."""
        while state := self._longest_name(state):
            name = self._names[state]
            found = places.setdefault(name, [])
            found.append(end - len(name))
            if len(found) == limit:
                del self._names[state]
            state = self._ending[state]

    def _longest_name(self, state: int) -> int:
        """The longest end of a state that is a name, as the name's state; 0 if there is none."""
        passed = []
        while state and state not in self._names:
            passed.append(state)
            state = self._ending[state]
        for other in passed:  # the next search for it takes one step, because names are only removed
            self._ending[other] = state
        return state


def _symbols(text: str, longest: int) -> Iterator[tuple[int, str]]:
    """The words, blanks and single marks of a text, each with the place where it ends.

    Args:
        longest: the length of the longest name. Longer symbols are empty, because no name contains them.
    """
    is_ascii = text.isascii()
    for match in _SYMBOL.finditer(text):
        start, end = match.span()
        if is_ascii:
            yield end, text[start:end] if end - start <= longest else ""
            continue
        for border in _BORDER.finditer(text, start, end):
            at = border.start()
            if start < at < end:
                yield at, text[start:at] if at - start <= longest else ""
                start = at
        yield end, text[start:end] if end - start <= longest else ""
