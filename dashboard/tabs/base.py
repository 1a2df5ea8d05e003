"""The interface of the tabs of a session's page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.location import Location


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings, for tabs that need no template of their own."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | int, ...]]
    """Whole numbers are set as figures. Text is escaped: it may be what agents wrote."""
    empty: str
    """Shown when there are no rows."""

    @property
    def cells(self) -> list[list[tuple[bool, str | int]]]:
        """The rows, each value with whether it is a figure."""
        return [[(isinstance(value, int), value) for value in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Tab:
    """A part of the session's page."""

    name: str
    """The end of its address: lower case, and different from every other part of the page."""
    title: str
    """The heading that people see."""
    content: Callable[[Location], dict[str, Any]]
    """The template's context for a session and a step. It must cost the same in a session of any length, and
    must load no bodies of steps that it does not show."""
    template: str = "session/_tab_table.html"
    """Shows ``table``, a :class:`Table`."""
