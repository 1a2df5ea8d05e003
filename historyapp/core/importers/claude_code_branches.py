"""Which positions of a session are live while its file is read, and what a rewind there would cut off."""

OTHER, OUTPUT, RESULTS, PROMPT = range(4)
"""What stands at a position."""


class Branches:
    """One byte for each entry of a session, and its rewinds. Position 0 stands before the first entry."""

    def __init__(self) -> None:
        self._kinds = bytearray([OTHER])
        self._rewinds: list[tuple[int, int]] = []
        self._spans: list[tuple[int, int]] = []
        self._tail = 0
        self._last_turn = 0

    def append(self, kind: int) -> None:
        """An entry at the next position."""
        self._kinds.append(kind)
        if kind in (OUTPUT, PROMPT):
            self._last_turn = len(self._kinds) - 1

    def is_live(self, position: int) -> bool:
        return position >= self._tail or any(first <= position <= last for first, last in self._spans)

    def is_end(self, position: int) -> bool:
        """Whether it is live, and no prompt or output stands behind it."""
        return self._last_turn <= position and self.is_live(position)

    def rewind(self, position: int) -> int:
        """Takes the next position for a rewind entry; gives where the session is to go on from.

        That is at the end of the results that answer the output at ``position``, parallel ones included.
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
        """The live spans of the session as it stood at a position, newest first."""
        spans: list[tuple[int, int]] = []
        for at, to in reversed(self._rewinds):
            if position >= at:
                spans.append((at, position))
                position = to
        return [*spans, (0, position)]
