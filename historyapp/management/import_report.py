"""What ``playhead import`` prints: a line for each file, what was skipped, and the sums."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Skipped
from historyapp.management.command_line import plural, printable
from historyapp.services.imports.reports import FileReport

FIRST_PASSED_OVER = 20
"""Files that were not read and are named once more at the end, without ``--verbose``."""
FIRST_SKIPPED = 3
"""Skipped records of a file that are named without ``--verbose``."""


def unpaired(report: FileReport) -> int:
    """Calls without a result and results without a call."""
    return report.total("unpaired_calls") + report.total("unpaired_results")


def figures(report: FileReport) -> tuple[int, ...]:
    """Sessions, steps, calls, results, unpaired, skipped."""
    read = (report.total(name) for name in ("steps", "calls", "results"))
    return (len(report.sessions), *read, unpaired(report), report.skipped_count)


OUTCOMES = (
    *("read", "imported", "imported in part", "with nothing new", "without a session"),
    *("of an unknown format", "not read"),
)
"""What can become of a file; of each file one of them."""
COLUMNS = ("Sessions", "Steps", "Calls", "Results", "Unpaired", "Skipped")


def print_file(console: Console, report: FileReport, *, dry_run: bool, verbose: bool) -> None:
    """One line for the file, and one for each record that is named."""
    console.print(f"{printable(report.name)}: {_read(report, dry_run)}", soft_wrap=True)
    for line in _skipped(report, verbose):
        console.print(f"    {line}", soft_wrap=True)


def _read(report: FileReport, dry_run: bool) -> str:
    if _is_unread(report):
        return f"not read: {printable(report.error)}"
    if not report.sessions:
        return f"{report.format}, no session in it"
    names = ("step", "call", "result")
    parts = [
        plural(len(report.sessions), "session"),
        *(plural(report.total(f"{name}s"), name) for name in names),
        f"{unpaired(report)} unpaired",
    ]
    line = f"{report.format}, {', '.join(parts)}"
    if not dry_run:
        added = report.total("added")
        line += f"; {plural(added, 'entry')} added" if report.changed else "; nothing new"
    return f"{line}; stopped: {printable(report.error)}" if report.error else line


def _skipped(report: FileReport, verbose: bool) -> Iterable[str]:
    """Damaged records one by one, the others (which say nothing of history) only with ``verbose``."""
    word = "record" if report.name.endswith(".json") else "line"
    shown = report.skipped if verbose else [skipped for skipped in report.skipped if skipped.damaged]
    if not verbose:
        shown = shown[:FIRST_SKIPPED]
    yield from (f"skipped {word} {skipped.line}: {printable(skipped.reason)}" for skipped in shown)
    rest = report.damaged_count - _damaged(shown)
    if rest:
        yield f"skipped {rest:,} more that cannot be read" + ("" if verbose else " (--verbose names them)")
    silent = report.skipped_count - report.damaged_count - (len(shown) - _damaged(shown))
    if silent and report.sessions:
        yield f"left out {plural(silent, 'record')} without anything for a history"


def _damaged(skipped: Sequence[Skipped]) -> int:
    return sum(one.damaged for one in skipped)


def print_sums(
    console: Console, reports: Sequence[FileReport], *, dry_run: bool, verbose: bool = False
) -> None:
    """What was read from the files, which of them were not read and why, then the sums for each format."""
    console.print()
    if len(reports) > 1:
        outcomes = Counter(_outcome(report, dry_run) for report in reports)
        told = ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
        console.print(f"{plural(len(reports), 'file')}: {told}.", soft_wrap=True)
        _print_passed_over(console, list(filter(_is_unread, reports)), verbose)
        console.print()
    if any(report.unknown_format for report in reports):
        titles = ", ".join(importer.title for importer in IMPORTERS.values())
        console.print(f"Formats that can be imported: {titles}.\n", soft_wrap=True)
    if any(report.sessions for report in reports):
        console.print(_table(reports, dry_run))


def _print_passed_over(console: Console, reports: Sequence[FileReport], verbose: bool) -> None:
    shown = reports if verbose else reports[:FIRST_PASSED_OVER]
    for report in shown:
        reason = "of an unknown format" if report.unknown_format else f"not read: {printable(report.error)}"
        console.print(f"    {printable(report.name)}: {reason}", soft_wrap=True)
    if rest := len(reports) - len(shown):
        console.print(f"    {rest:,} more (--verbose names them)")


def _outcome(report: FileReport, dry_run: bool) -> str:
    if not report.sessions:
        if report.unknown_format:
            return "of an unknown format"
        return "not read" if report.error else "without a session"
    if dry_run:
        return "read"
    if report.error:
        return "imported in part"
    return "imported" if report.changed else "with nothing new"


def _is_unread(report: FileReport) -> bool:
    return bool(report.error) and not report.sessions


def _table(reports: Sequence[FileReport], dry_run: bool) -> Table:
    table = Table("Format", box=None, pad_edge=False, header_style="bold")
    for column in ("Files", *COLUMNS, *(() if dry_run else ("Added",))):
        table.add_column(column, justify="right")
    read = [report for report in reports if not _is_unread(report)]
    rows = {name: [r for r in read if r.format == name] for name in sorted({r.format for r in read})}
    if len(read) < len(reports):
        rows["(not read)"] = [report for report in reports if _is_unread(report)]
    for name, its in rows.items():
        table.add_row(name, *_sums(its, dry_run))
    if len(rows) > 1:
        table.add_row("all", *_sums(reports, dry_run), style="bold")
    return table


def _sums(reports: Sequence[FileReport], dry_run: bool) -> list[str]:
    columns = zip(*(figures(report) for report in reports), strict=True)
    sums = [len(reports), *(sum(column) for column in columns)]
    if not dry_run:
        sums.append(sum(report.total("added") for report in reports))
    return [f"{figure:,}" for figure in sums]


def print_markdown(console: Console, reports: Sequence[FileReport]) -> None:
    """One table with a row for each file, as in docs/importers.md."""
    console.print(f"| File | Format | {' | '.join(COLUMNS)} |", soft_wrap=True)
    console.print("|---|---|" + "--:|" * len(COLUMNS), soft_wrap=True)
    for report in reports:
        cells = [f"`{printable(report.name)}`", report.format or "(not read)", *map(str, figures(report))]
        console.print(f"| {' | '.join(cells)} |", soft_wrap=True)
