"""A long text of a step on a page of its own: a part of its lines, and the lines that match a search.

Each operation scans the text only once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.functional import cached_property
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.rendering.line_breaks import MAX_LINES as MAX_SHOWN_LINES
from dashboard.rendering.line_breaks import MAX_TURNING, page_characters, page_end, with_breaks
from dashboard.rendering.text import visible
from historyapp.core.searchable import lowered

PAGE_CHARACTERS = 20_000
"""Characters of the text on one page."""
MAX_LINES = 50
"""At most this many matching lines are listed on one page."""
MAX_COUNTED = 10_000
"""At most this many matching lines are counted."""
LINES_BEFORE = 3
"""Lines shown before a matching line."""
AROUND = 80
"""Characters on each side of a match in the list."""
MAX_MARKED = 1_000
"""Matches that are marked on one page."""


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line that contains the text to find, cut to the part around the first match."""

    number: int
    """From 1."""
    start: int
    """The start of the page that shows the line."""
    before: str
    match: str
    after: str


@dataclass(frozen=True)
class WholeText:
    """One page of a text.

    Args:
        raw: the text as the agent wrote it.
        search_text: the text to find, in any case; empty: none.
        start: the character at which the page begins, of the text without escape sequences.
        first: the number of matching lines on earlier pages of the list.
    """

    raw: str
    search_text: str = ""
    start: int | None = None
    first: int = 0

    @cached_property
    def text(self) -> str:
        return visible(self.raw)

    @cached_property
    def _lines(self) -> list[tuple[int, int]]:
        """The numbers of the lines with the wanted text, and where the first match is."""
        if not self.search_text:
            return []
        return list(_matching_lines(lowered(self.text), lowered(self.search_text)))

    @property
    def count(self) -> int:
        """Lines that have the wanted text, up to :data:`MAX_COUNTED`."""
        return min(len(self._lines), MAX_COUNTED)

    @property
    def has_more(self) -> bool:
        return len(self._lines) > MAX_COUNTED

    @cached_property
    def listed(self) -> list[MatchingLine]:
        """The lines to list."""
        counted = self._lines[: self.count]
        return [self._line(*line) for line in counted[self.first : self.first + MAX_LINES]]

    @property
    def next_first(self) -> int | None:
        """``first`` of the next page of the list; None on the last one."""
        following = self.first + MAX_LINES
        return following if following < self.count else None

    def _line(self, number: int, at: int) -> MatchingLine:
        begin, end = self.text.rfind("\n", 0, at) + 1, at + len(self.search_text)
        line_end = self.text.find("\n", end, end + AROUND)
        before = self.text[max(begin, at - AROUND) : at]
        after = self.text[end : line_end if line_end >= 0 else end + AROUND]
        lowest = max(0, at - MAX_TURNING // 2)
        start = max(begin, lowest)
        for _ in range(LINES_BEFORE):
            if start > lowest:
                start = max(lowest, self.text.rfind("\n", lowest, start - 1) + 1)
        return MatchingLine(number, start, before, self.text[at:end], after)

    @cached_property
    def page_start(self) -> int:
        """The start of the page: as requested, otherwise at the first listed line."""
        start = self.start
        if start is None:
            start = self.listed[0].start if self.listed else 0
        return max(0, min(start, len(self.text)))

    @cached_property
    def page_end(self) -> int:
        return page_end(self.text, self.page_start, PAGE_CHARACTERS)

    @property
    def next_start(self) -> int | None:
        """Where the next page begins; None on the last one."""
        return self.page_end if self.page_end < len(self.text) else None

    @property
    def previous_start(self) -> int | None:
        """Where the previous page begins; None on the first one."""
        if not self.page_start:
            return None
        before = self.text[max(0, self.page_start - PAGE_CHARACTERS) : self.page_start]
        lowest = self.page_start - page_characters(before)
        line = self.page_start
        for _ in range(MAX_SHOWN_LINES):
            line = self.text.rfind("\n", lowest, line - 1) + 1
            if not line:
                break
        else:
            return line
        newline = self.text.find("\n", lowest, self.page_start - 1) if lowest else -1
        return newline + 1 if newline >= 0 else lowest

    @property
    def html(self) -> SafeString:
        """The lines of the page with their numbers, with matches marked."""
        number = self.text.count("\n", 0, self.page_start) + 1
        shown = self.text[self.page_start : self.page_end].removesuffix("\n")
        lines = self._marked(shown).split("\n")
        width = len(str(number + len(lines)))
        rows = (
            f'<span data-n="{number + index:>{width}}"><code>{line}\n</code></span>'
            for index, line in enumerate(lines)
        )
        return with_breaks(mark_safe("".join(rows)))  # noqa: S308 the lines are escaped

    def _marked(self, shown: str) -> str:
        needle = lowered(self.search_text)
        if not needle:
            return escape(shown)
        pieces, position, folded = list[str](), 0, lowered(shown)
        for _ in range(MAX_MARKED):
            at = folded.find(needle, position)
            if at < 0:
                break
            end = at + len(needle)
            pieces += [escape(shown[position:at]), f"<mark>{escape(shown[at:end])}</mark>"]
            position = end
        return "".join([*pieces, escape(shown[position:])])


def _matching_lines(folded: str, needle: str) -> Iterator[tuple[int, int]]:
    """The lines with the needle, one more than are counted: their numbers and their first matches."""
    number, position, at = 1, 0, folded.find(needle)
    for _ in range(MAX_COUNTED + 1):
        if at < 0:
            return
        number += folded.count("\n", position, at)
        yield number, at
        position = at
        line_end = folded.find("\n", at)
        if line_end < 0:
            return
        at = folded.find(needle, line_end)
