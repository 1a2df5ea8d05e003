"""What every tab of a session's page gives."""

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
    """In its address, behind that of the session: lower case, as no other part of the page has it."""
    title: str
    """For people."""
    content: Callable[[Location], dict[str, Any]]
    """What the template shows for a session and a step. It must cost the same in a session of any length, and
    must load no bodies of steps that it does not show."""
    template: str = "_tab_table.html"
    """Shows ``table``, a :class:`Table`."""
