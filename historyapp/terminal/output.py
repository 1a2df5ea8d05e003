"""What commands print: tables and lines for people, JSON for programs. Colours only on a terminal."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from historyapp.terminal.safe_text import safe_json, safe_line

PIPE_WIDTH = 200
"""Columns of a table that does not go to a terminal."""
SHORTEST_ID = 8
STYLES = {
    "error": "red",
    "interrupted_by_human": "red",
    "success": "green",
    "answered": "green",
    "in_flight": "yellow",
    "live": "green",
    "archived": "dim",
    "abandoned": "dim",
}
"""By status of a step or a session."""


class Column(NamedTuple):
    title: str
    number: bool = False
    """Right-aligned."""
    flexible: bool = False
    """Cut where the table is wider than the terminal."""


class Output:
    """Standard output. ``NO_COLOR`` and ``TERM=dumb`` are respected."""

    def __init__(self) -> None:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        self.is_terminal = sys.stdout.isatty()
        self._console = Console(
            width=None if self.is_terminal else PIPE_WIDTH,
            force_terminal=self.is_terminal,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def json(self, value: Any, *, lines: bool = False) -> None:
        """A value as JSON, indented unless it is one of many ``lines``."""
        print(safe_json(value, None if lines else 2), flush=lines)  # noqa: T201

    def line(self, *parts: str | tuple[str, str]) -> None:
        """A line of safe text; a part may be a pair of text and style."""
        self._console.print(Text.assemble(*parts), soft_wrap=True)
        sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """A table. Cells may hold anything; a cell that is a status has its colour."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title, number, flexible in columns:
            # Of columns that may wrap the table takes width first. Their cells do not wrap, so they are cut.
            table.add_column(title, justify="right" if number else "left", no_wrap=not flexible)
        for row in rows:
            styled = ((safe_line(text), STYLES.get(text, "")) for text in row)
            table.add_row(*(Text(*cell, no_wrap=True, overflow="ellipsis") for cell in styled))
        self._console.print(table)


def note(sentence: str) -> None:
    """A note or an error for people, on standard error."""
    print(safe_line(sentence), file=sys.stderr, flush=True)  # noqa: T201


def short_ids(ids: Sequence[str]) -> list[str]:
    """The ids cut to the length at which no two of them begin alike, at least eight characters."""
    length = SHORTEST_ID
    while length < 36 and len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return [id[:length] for id in ids]


def time_text(text: str | None) -> str:
    """A time of the API to the second, in UTC; empty without one."""
    return f"{text[:19]}Z" if text else ""


def duration_text(begun: str | None, ended: str | None) -> str:
    """The time between two times of the API; empty where one is not known."""
    if not begun or not ended:
        return ""
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
