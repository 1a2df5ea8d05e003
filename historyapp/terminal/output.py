"""Prints tables and lines for people, and JSON for programs. Uses colours only on a terminal."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from historyapp.core import dates
from historyapp.core.usage import MICRO, rounded_dollars
from historyapp.terminal.safe_text import safe_json, safe_line, safe_text

PIPE_WIDTH = 200
"""The width of a table, in characters, if the output is not a terminal."""
MIN_ID, MIN_TIMED_ID = 8, 13
"""The shortest prefixes of ids that are shown. An id of version 7 begins with its time: sessions of the same
minute share eight characters, and those of the same millisecond 13."""
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
"""The style for each status of a step or a session."""


class Column(NamedTuple):
    title: str
    number: bool = False
    """Right-aligned."""
    flexible: bool = False
    """The column is cut if the table is wider than the terminal."""


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
        """Prints a value as JSON: indented, or with ``lines`` on one line."""
        print(safe_json(value, None if lines else 2), flush=lines)  # noqa: T201

    def line(self, *parts: str | tuple[str, str]) -> None:
        """Prints a line, or lines, of any text. A part may be a pair of text and style."""
        pairs = ((part, "") if isinstance(part, str) else part for part in parts)
        safe = ((safe_text(text), style) for text, style in pairs)
        self._console.print(Text.assemble(*safe), soft_wrap=True)
        sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Prints a table. Cells may contain any text. A status gets its colour."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title, number, flexible in columns:
            # rich shrinks columns that may wrap first. Their cells have no_wrap, so they are cut instead.
            table.add_column(title, justify="right" if number else "left", no_wrap=not flexible)
        for row in rows:
            styled = ((safe_line(text), STYLES.get(text, "")) for text in row)
            table.add_row(*(Text(*cell, no_wrap=True, overflow="ellipsis") for cell in styled))
        self._console.print(table)


def note(sentence: str) -> None:
    """Prints a note or an error on standard error."""
    print(safe_line(sentence), file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None]]:
    """Shows a progress bar while the block runs, if standard error is a terminal.

    Yields a function that sets the completed share, from 0 to 1.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The shortest prefix of each id that none of the others has, and that probably no other session has."""
    uses = Counter(id[:length] for id in set(ids) for length in range(MIN_ID, len(id) + 1))
    return [
        id[: next(length for length in range(_min_length(id), len(id) + 1) if uses[id[:length]] == 1)]
        for id in ids
    ]


def _min_length(id: str) -> int:
    return MIN_TIMED_ID if id[14:15] == "7" else MIN_ID


def time_text(text: str | None) -> str:
    """A time of the API, rounded down to the second, in UTC; empty if there is no time."""
    return f"{text[:19]}Z" if text else ""


def duration_text(start: str | None, end: str | None) -> str:
    """The duration between two times of the API; empty if one is unknown."""
    if not start or not end:
        return ""
    return dates.duration_text(datetime.fromisoformat(end) - datetime.fromisoformat(start))


def seconds_text(seconds: float | None) -> str:
    """A duration of the API in words; empty if it is unknown."""
    return "" if seconds is None else dates.duration_text(timedelta(seconds=seconds))


def tokens_text(tokens: int, source: str) -> str:
    """A number of tokens as in the lists of the pages: an estimate of the text is marked."""
    return f"≈ {tokens:,}" if source == "estimated" and tokens else f"{tokens:,}"


def dollars_text(dollars: float, is_minimum: bool = False) -> str:
    """An amount of money, rounded and marked as on the pages."""
    text = rounded_dollars(round(dollars * MICRO)) if dollars else "$0.00"
    return f"≥ {text}" if is_minimum else text
