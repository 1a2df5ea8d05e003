"""The live positions of a session while its file is read."""

OTHER, OUTPUT, RESULTS, PROMPT = range(4)
"""The kinds of an entry."""


class Branches:
    """The kinds of a session's entries, as bytes, and its rewinds. Position 0 is before the first entry."""

    def __init__(self) -> None:
        self._kinds = bytearray([OTHER])
        self._rewinds: list[tuple[int, int]] = []
        self._spans: list[tuple[int, int]] = []
        self._tail = 0
        self._last_turn = 0

    def append(self, kind: int) -> None:
        """Adds an entry at the next position."""
        self._kinds.append(kind)
        if kind in (OUTPUT, PROMPT):
            self._last_turn = len(self._kinds) - 1

    def is_live(self, position: int) -> bool:
        return position >= self._tail or any(first <= position <= last for first, last in self._spans)

    def is_end(self, position: int) -> bool:
        """Whether the position is live and no prompt or output follows it."""
        return self._last_turn <= position and self.is_live(position)

    def rewind(self, position: int) -> int:
        """Adds a rewind entry at the next position. Returns the position to rewind to.

        That is ``position``, or the last result after it if the output there has results.
        """
        to = position
        while to + 1 < len(self._kinds) and self._kinds[to + 1] == RESULTS:
            to += 1
        self._spans = self._path(to)
        self._tail = len(self._kinds)
        self._last_turn = to
        self._rewinds.append((self._tail, to))
        self._kinds.append(OTHER)
        return to

    def _path(self, position: int) -> list[tuple[int, int]]:
        """The spans that were live at a position, newest first."""
        spans: list[tuple[int, int]] = []
        for at, to in reversed(self._rewinds):
            if position >= at:
                spans.append((at, position))
                position = to
        return [*spans, (0, position)]
