"""Texts shown line by line: code with line numbers, diffs, matches of a search, and lists of tasks.

Each function draws a part of a text, so that a long text can be read a part at a time. The numbers are in
attributes, so that selections and screen readers do not include them.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.rendering.code import highlighted
from dashboard.rendering.text import visible

TASK_MARKS = {
    "[x] ": "done", "[>] ": "in progress", "[-] ": "dropped", "[ ] ": "to do", "(x) ": "chosen",
    "( ) ": "not chosen",
}  # fmt: skip
"""The marks at the beginning of a task or an option, and their meanings."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")
_PLACE = re.compile(r"(?P<mark>[:-])(?P<line>\d{1,7})(?P=mark)")
_LINE_ONLY = re.compile(r"\s{0,9}(?P<line>\d{1,7})(?:[:→\t-])")
_NO_PATH = frozenset(' \t"{}<>')
"""Characters that the path of a match does not contain."""
_TAGS = {"-": "del", "+": "ins"}


class _DiffLine(NamedTuple):
    mark: str
    """``-``, ``+``, a space, or ``@`` at the head of a part."""
    old: int | None
    new: int | None
    html: str

    @property
    def is_remark(self) -> bool:
        """Whether it says something about the line before it, such as ``\\ No newline at end of file``."""
        return self.mark == "@" and self.html.startswith("\\")


def _parts(text: str) -> list[str]:
    """The lines of a text as they are shown, each with its end."""
    return [f"{line}\n" for line in visible(text).removesuffix("\n").split("\n")]


def _coloured(lines: Iterable[str], language: str) -> list[str]:
    """Each line as HTML. pygments closes its marks at the end of each line."""
    code = "".join(lines)
    html = highlighted(code, language).removesuffix("\n").split("\n")
    plain = code.removesuffix("\n").split("\n")
    return html if len(html) == len(plain) else [escape(line) for line in plain]


def _line(tag: str, number: str, html: str) -> str:
    """A line of a table. Without an element around them, browsers drop the spaces between coloured words."""
    return f'<{tag} data-n="{number}"><code>{html}\n</code></{tag}>'


def numbered_lines(text: str, span: tuple[int, int], first_line: int, language: str) -> SafeString:
    """Lines of code with their numbers. The text begins with line ``first_line``."""
    start, end = span
    shown = _parts(text[start:end])
    number = first_line + text.count("\n", 0, start)
    width = len(str(number + len(shown)))
    rows = [
        _line("span", f"{number + index:>{width}}", html)
        for index, html in enumerate(_coloured(shown, language))
    ]
    return mark_safe("".join(rows))  # noqa: S308 the lines are escaped


def diff_lines(text: str, span: tuple[int, int], language: str) -> SafeString:
    """A diff of one file with the numbers of the old and the new lines, if it has them."""
    lines = list(_diff(text, span, language))
    width = max((len(str(line.new or line.old or "")) for line in lines), default=0)
    rows = []
    for line in lines:
        numbers = f"{line.old or '':>{width}} {line.new or '':>{width}} " if width else ""
        mark = " " if line.mark == "@" else line.mark
        tag = "b" if line.mark == "@" else _TAGS.get(line.mark, "span")
        rows.append(_line(tag, f"{numbers}{mark}", line.html))
    return mark_safe("".join(rows))  # noqa: S308 the lines are escaped


def side_by_side(text: str, span: tuple[int, int], language: str) -> SafeString:
    """A diff of one file with the old lines on the left and the new ones on the right."""
    rows: list[str] = []
    removed: list[_DiffLine] = []
    added: list[_DiffLine] = []
    for line in [*_diff(text, span, language), None]:
        if line and line.mark == "-":
            removed.append(line)
        elif line and line.mark == "+":
            added.append(line)
        elif line and line.is_remark and (removed or added):
            (added or removed).append(line)
        else:
            rows += [_row(old, new) for old, new in zip_longest(removed, added)]
            removed, added = [], []
            if line and line.mark == "@":
                rows.append(f'<tr><th colspan="2">{line.html}</th></tr>')
            elif line:
                rows.append(_row(line, line))
    return mark_safe("".join(rows))  # noqa: S308 the lines are escaped


def _row(old: _DiffLine | None, new: _DiffLine | None) -> str:
    cells = ""
    for line, number in ((old, old and old.old), (new, new and new.new)):
        if line is None:
            cells += "<td></td>"
        else:
            tag = _TAGS.get(line.mark, "span")
            cells += f'<td data-n="{number or ""}"><{tag}>{line.html}</{tag}></td>'
    return f"<tr>{cells}</tr>"


def _diff(text: str, span: tuple[int, int], language: str) -> Iterator[_DiffLine]:
    """The lines of a part of a diff. The old and the new lines are coloured separately, because each
    side is code on its own."""
    start, end = span
    shown = _parts(text[start:end])
    old_side = iter(_coloured([line[1:] or "\n" for line in shown if line[0] in " -\n"], language))
    new_side = iter(_coloured([line[1:] or "\n" for line in shown if line[0] in " +\n"], language))
    old, new = _numbers_at(text, start)
    for line in shown:
        mark = line[0] if line[0] in "+-" else " "
        if line.startswith("@@"):
            old, new = _hunk_numbers(line)
            yield _DiffLine("@", None, None, escape(line.rstrip("\n")))
        elif line[0] not in " +-\n":
            yield _DiffLine("@", None, None, escape(line.rstrip("\n")))
        else:
            html = next(old_side, "") if mark != "+" else ""
            html = next(new_side, "") if mark != "-" else html
            yield _DiffLine(mark, old if mark != "+" else None, new if mark != "-" else None, html)
            old = old + 1 if old and mark != "+" else old
            new = new + 1 if new and mark != "-" else new


def _hunk_numbers(header: str) -> tuple[int | None, int | None]:
    match = _HUNK.match(header)
    return (int(match[1]), int(match[2])) if match else (None, None)


def _numbers_at(text: str, start: int) -> tuple[int | None, int | None]:
    """The numbers of the old and new line that follow ``start``."""
    header = text.rfind("\n@@ ", 0, start) + 1
    if not start or not text.startswith("@@ ", header):
        return None, None
    body = text.find("\n", header) + 1
    old, new = _hunk_numbers(text[header:body])
    if old is None or new is None or body > start:
        return None, None
    before = f"\n{text[body:start]}"
    all_lines, removed, added = before.count("\n") - 1, before.count("\n-"), before.count("\n+")
    all_lines -= before.count("\n\\")
    return old + all_lines - added, new + all_lines - removed


def matches(text: str) -> SafeString:
    """Matches of a search, grouped by file. Lines that name no file stay as they are."""
    rows, file = [], ""
    for line in _parts(text):
        match = _PLACE.search(line) if not (file and line.startswith(f"{file}-")) else None
        match = match or (_PLACE.match(line, len(file)) if file and line.startswith(file) else None)
        numbered = _LINE_ONLY.match(line)
        if numbered:
            rows.append(_line("span", f"{numbered['line']:>5}", escape(line[numbered.end() : -1])))
        elif match and match.start() and not _NO_PATH.intersection(line[: match.start()]):
            if line[: match.start()] != file:
                file = line[: match.start()]
                rows.append(_line("b", "", escape(file)))
            rows.append(_line("span", f"{match['line']:>5}", escape(line[match.end() : -1])))
        else:
            rows.append(_line("span", "", escape(line[:-1])))
    return mark_safe("".join(rows))  # noqa: S308 the lines are escaped


def task_list(text: str) -> SafeString:
    """Lines that begin with one of :data:`TASK_MARKS`, as a list."""
    rows = []
    for line in _parts(text):
        state = TASK_MARKS.get(line[:4], "")
        task = escape(line[4:].strip() if state else line.strip())
        label = f'<span class="visually-hidden">{state}: </span>' if state else ""
        rows.append(f'<li class="task-{state.replace(" ", "-") or "text"}">{label}{task}</li>')
    return mark_safe("".join(rows))  # noqa: S308 the lines are escaped
