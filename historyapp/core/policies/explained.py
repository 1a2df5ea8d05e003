"""Which names the notes of a context explain: those with the line where they first appeared."""

from collections.abc import Iterable

Place = tuple[int, int]
"""The index of a step, and of one of its lines."""


class ExplainedNames:
    """The names of a context while its notes are chosen.

    Args:
        shown: names that are in the context before any note. Notes need not explain them.
    """

    def __init__(self, shown: Iterable[str]) -> None:
        self.known = set(shown)
        """Names that need no line."""
        self.mentioned: set[str] = set()
        """Names that notes have only in other lines. The line where they first appeared counts less."""
        self._shown = frozenset(self.known)
        self.sources: dict[str, Place] = {}
        """Where used names first appeared."""
        self._source_places: set[Place] = set()
        self._chosen: set[Place] = set()

    def set_source(self, name: str, place: Place) -> bool:
        """Sets where a used name first appeared. Returns whether that line can explain the name."""
        if name in self._shown:
            return False
        if name in self.known:  # notes have it in another line, chosen before the name was used
            self.known.discard(name)
            self.mentioned.add(name)
        self.sources[name] = place
        self._source_places.add(place)
        return True

    def is_chosen_source(self, place: Place, names: Iterable[str]) -> bool:
        """Whether notes have this source already. If so, it explains these names too."""
        if place not in self._chosen:
            return False
        self.known.update(names)
        return True

    def add(self, names: Iterable[str], place: Place, *, explains: bool) -> None:
        """Adds the names of a line that was chosen.

        Args:
            explains: False for a tool call, which only repeats names.
        """
        for name in names:
            source = self.sources.get(name, place)
            if source == place and explains:
                self.known.add(name)
            else:
                self.mentioned.add(name)
        if place in self._source_places:
            self._chosen.add(place)
