"""Rows of a comparison of strategies as their page shows them: texts are clipped and names are marked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.rendering.text import visible
from historyapp.core.evaluation.name_search import first_places
from historyapp.core.identifiers import texts_in
from historyapp.core.name_marks import MarksLeft, TextPiece, mark_names
from historyapp.core.results import returned_text
from historyapp.core.text import preview
from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.episodes import Episode as EpisodeRow
from historyapp.services.strategy_comparisons import OriginalStep, StrategyRecall, StrategyRow, SummaryCell

LETTERS = "AB"
PAGE = 20
"""Rows on one page."""
MAX_STEPS, MAX_ITEMS = 50, 50
"""Original steps of one row that are shown, and summaries of one cell."""
RESULTS, SUMMARY = 1_500, 8_000
"""The maximum number of characters shown of a step's result, and of a summary."""
CELL = 30_000
"""The maximum number of characters that are shown of all summaries of a cell."""
LINES, LINE = 8, 120
"""The maximum number of lines with needed names shown from the rest of a result, and of characters."""


@dataclass(frozen=True, slots=True)
class NameMarks:
    """Which names are marked, with the letters of the sides that keep them."""

    needed: Mapping[str, str]
    others: Mapping[str, str]
    left: MarksLeft = field(default_factory=MarksLeft)

    def html(self, text: str) -> SafeString:
        """The text with its names in ``mark`` elements. A needed name says which sides keep it."""
        pieces = mark_names(visible(text), self.needed, self.others, self.left)
        return format_html_join("", "{}", ((self._piece(piece),) for piece in pieces))

    def _piece(self, piece: TextPiece) -> str | SafeString:
        name = piece.text
        if not piece.is_name:
            return name
        if name not in self.needed:
            return format_html('<mark class="name" title="kept by {}">{}</mark>', self.others[name], name)
        letters = self.needed[name]
        style, words = ("kept", f" {letters}") if letters else ("lost", " lost")
        return format_html('<mark class="needed {}">{}<b>{}</b></mark>', style, name, words)


@dataclass(frozen=True, slots=True)
class ShownOriginal:
    row: EpisodeRow
    call: SafeString
    results: SafeString
    is_cut: bool
    """Whether the result is longer than the shown part."""


@dataclass(frozen=True, slots=True)
class ShownSummary:
    item: CompressionItem
    html: SafeString
    shown: int
    length: int

    @property
    def is_cut(self) -> bool:
        return self.shown < self.length


@dataclass(frozen=True, slots=True)
class ShownCell:
    letter: str
    run: CompressionRun
    cell: SummaryCell
    summaries: list[ShownSummary]

    @property
    def more(self) -> int:
        """Summaries that are not shown."""
        return len(self.cell.items) - len(self.summaries)


@dataclass(frozen=True, slots=True)
class ShownRow:
    row: StrategyRow
    originals: list[ShownOriginal]
    cells: list[ShownCell]

    @property
    def more(self) -> int:
        """Original steps that are not shown."""
        return len(self.row.originals) - len(self.originals)


def shown_row(row: StrategyRow, runs: list[CompressionRun], needed: Mapping[str, str]) -> ShownRow:
    """A row with its names marked.

    Args:
        needed: all names that later steps needed, with the letters of the sides that keep them.
    """
    others: dict[str, str] = {}
    for letter, cell in zip(LETTERS, row.cells, strict=True):
        for name in cell.names:
            others[name] = f"{others[name]} and {letter}" if name in others else letter
    marks = NameMarks(needed, others)
    cells = []
    for letter, run, cell in zip(LETTERS, runs, row.cells, strict=True):
        room, summaries = CELL, []
        for item in cell.items[:MAX_ITEMS]:
            text = item.text or ""
            shown = text[: min(SUMMARY, room)]
            room -= len(shown)
            summaries.append(ShownSummary(item, marks.html(shown), len(shown), len(text)))
        cells.append(ShownCell(letter, run, cell, summaries))
    originals = [_original(step, marks) for step in row.originals[:MAX_STEPS]]
    return ShownRow(row, originals, cells)


def _original(original: OriginalStep, marks: NameMarks) -> ShownOriginal:
    row, step = original.row, original.step
    if step is None:
        return ShownOriginal(row, marks.html(row.call_preview), marks.html(row.result_preview), is_cut=True)
    output = step.output
    calls = (output.use_tool,) if output.use_tool else output.tool_calls
    written = "; ".join(f"{tool_call.name} {' '.join(texts_in(tool_call.arguments))}" for tool_call in calls)
    returned = "\n\n".join(returned_text(result) for result in step.results) or output.text
    shown, hidden = returned[:RESULTS], returned[RESULTS:]
    lines = list(islice(_lines_with_names(hidden, marks.needed), LINES))
    shown = "\n".join([f"{shown.rstrip()} …", *lines]) if hidden else shown
    return ShownOriginal(row, marks.html(preview(written, 500)), marks.html(shown), is_cut=bool(hidden))


def _lines_with_names(text: str, names: Mapping[str, str]) -> Iterator[str]:
    """Parts of the lines of a text that have one of the names, each name and part once."""
    end = 0
    places = first_places(names, text, limit=1)
    names_by_place = {places[name][0]: name for name in names if name in places}
    for start_of_name, name in sorted(names_by_place.items()):
        if start_of_name >= end:
            end = start_of_name + len(name) + LINE // 2
            start = max(text.rfind("\n", 0, start_of_name) + 1, start_of_name - LINE // 2)
            after = text[start_of_name + len(name) : start_of_name + len(name) + LINE // 2].partition("\n")[0]
            yield f"… {text[start:start_of_name].lstrip()}{name}{after.rstrip()} …"


def needed_letters(recall: StrategyRecall | None) -> dict[str, str]:
    """The names that later steps needed, each with the letters of the sides that keep it."""
    if recall is None:
        return {}
    letters = {name.name: "" for name in recall.names}
    for letter, side in zip(LETTERS, recall.sides, strict=True):
        for name in side.kept:
            letters[name.name] = f"{letters[name.name]} {letter}".strip()
    return letters
