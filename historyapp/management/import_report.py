"""Prints the report of ``playhead import``: a line for each file, skipped records, and totals."""

from collections import Counter
from collections.abc import Iterable, Sequence

from django.conf import settings
from django.urls import reverse
from rich.console import Console
from rich.table import Table

from historyapp.core.importers import IMPORTERS
from historyapp.management.command_line import plural, printable
from historyapp.running_servers import running_address
from historyapp.services.imports.lines import LineCounts
from historyapp.services.imports.reports import FileReport

FIRST_UNREAD = 20
"""The maximum number of unread files listed at the end without ``--verbose``."""
FIRST_SESSIONS = 3
"""The maximum number of sessions listed at the end."""
FIRST_SKIPPED = 3
"""The maximum number of skipped records listed for a file without ``--verbose``."""
FIRST_REASONS = 5
"""The maximum number of reasons why records were left out listed for a file without ``--verbose``."""
OUTCOMES = (
    *("read", "imported", "imported in part", "with nothing new", "without a session"),
    *("of an unknown format", "not read"),
)
"""The possible outcomes of a file."""
COLUMNS = ("Sessions", "Steps", "Calls", "Results", "Unpaired", "Skipped")


def figures(report: FileReport) -> tuple[int, ...]:
    """One number for each of :data:`COLUMNS`."""
    totals = (report.total(name) for name in ("steps", "calls", "results"))
    unpaired = report.total("unpaired_calls") + report.total("unpaired_results")
    return (len(report.sessions), *totals, unpaired, report.skipped_count)


def print_file(console: Console, report: FileReport, *, dry_run: bool, verbose: bool) -> None:
    """Prints one line for the file, and one for each listed record."""
    sessions, steps, calls, results, unpaired, _ = figures(report)
    if _is_unread(report):
        line = f"not read: {printable(report.error)}"
    elif not sessions:
        line = f"{report.format}, no session in it"
    else:
        counted = ((sessions, "session"), (steps, "step"), (calls, "call"), (results, "result"))
        counts = ", ".join(plural(count, noun) for count, noun in counted)
        line = f"{report.format}, {counts}, {unpaired} unpaired"
        if not dry_run and report.changed:
            line += f"; {plural(report.total('added'), 'entry')} added"
        elif not dry_run:
            line += "; nothing new"
        if report.error:
            line += f"; stopped: {printable(report.error)}"
    console.print(f"{printable(report.name)}: {line}", soft_wrap=True)
    if sessions and (line_counts := report.lines.counts):
        console.print(f"  {_lines(line_counts)}", soft_wrap=True)
    for skipped in _skipped(report, verbose):
        console.print(f"    {skipped}", soft_wrap=True)


def _lines(counts: LineCounts) -> str:
    """Accounts for the lines of the file."""
    continued = "continues an entry or describes" if counts.further == 1 else "continue an entry or describe"
    parts = f"{counts.with_entries:,} with entries, {counts.further:,} that {continued} the session"
    blank = f", {counts.blank:,} blank" if counts.blank else ""
    return f"{plural(counts.total, 'line')}: {parts}, {counts.left_out:,} left out{blank}"


def _skipped(report: FileReport, verbose: bool) -> Iterable[str]:
    """The lines for skipped records. Intact records that are not part of a history are listed only with
    ``verbose``."""
    unit = "record" if report.name.endswith(".json") else "line"
    listed = report.skipped
    if not verbose:
        listed = [skipped for skipped in listed if skipped.damaged][:FIRST_SKIPPED]
    yield from (f"skipped {unit} {skipped.line}: {printable(skipped.reason)}" for skipped in listed)
    damaged = sum(skipped.damaged for skipped in listed)
    if more := report.damaged_count - damaged:
        yield f"skipped {more:,} more that cannot be read" + ("" if verbose else " (--verbose lists them)")
    intact = report.skipped_count - report.damaged_count - (len(listed) - damaged)
    if intact and report.sessions:
        reasons = "" if verbose else _reasons(report, intact)
        yield f"left out {plural(intact, 'record')} that contain{'s' * (intact == 1)} no history{reasons}"


def _reasons(report: FileReport, intact: int) -> str:
    """The most frequent reasons for which intact records were skipped."""
    reasons = [reason for reason in report.reasons if not reason.damaged][:FIRST_REASONS]
    listed = [f"{reason.count:,} {printable(reason.reason)}" for reason in reasons]
    if more := intact - sum(reason.count for reason in reasons):
        listed.append(f"{more:,} for other reasons")
    return f": {', '.join(listed)}" if listed else ""


def print_totals(
    console: Console, reports: Sequence[FileReport], *, dry_run: bool, verbose: bool = False
) -> None:
    """Prints the number of files with each outcome, the unread files with reasons, and the totals for each
    format."""
    console.print()
    if len(reports) > 1:
        outcomes = Counter(_outcome(report, dry_run) for report in reports)
        counts = ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
        console.print(f"{plural(len(reports), 'file')}: {counts}.", soft_wrap=True)
        unread = [report for report in reports if _is_unread(report)]
        listed = unread if verbose else unread[:FIRST_UNREAD]
        for report in listed:
            unknown = report.unknown_format
            reason = "of an unknown format" if unknown else f"not read: {printable(report.error)}"
            console.print(f"    {printable(report.name)}: {reason}", soft_wrap=True)
        if more := len(unread) - len(listed):
            console.print(f"    {more:,} more (--verbose lists them)")
        console.print()
    if any(report.unknown_format for report in reports):
        titles = ", ".join(importer.title for importer in IMPORTERS.values())
        console.print(f"Formats that can be imported: {titles}.\n", soft_wrap=True)
    if any(report.sessions for report in reports):
        if not dry_run:
            _print_sessions(console, reports)
        console.print(_table(reports, dry_run))


def _print_sessions(console: Console, reports: Sequence[FileReport]) -> None:
    """Prints the addresses of the first sessions, or their ids if no server is running."""
    sessions = list(dict.fromkeys(session.id for report in reports for session in report.sessions))
    address = settings.PLAYHEAD_BASE_URL or running_address(settings.PLAYHEAD_HOME)
    for id in sessions[:FIRST_SESSIONS]:
        line = f"Open {address}{reverse('overview', args=[id])}" if address else f"Session {id}"
        console.print(line, soft_wrap=True, highlight=False)
    if (more := len(sessions) - FIRST_SESSIONS) > 0:
        console.print(f"and {plural(more, 'more session')}")
    if sessions and not address:
        console.print("No server is running here. playhead up starts one.", soft_wrap=True)
    console.print()


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
    for name, reports_of_format in rows.items():
        table.add_row(name, *_totals(reports_of_format, dry_run))
    if len(rows) > 1:
        table.add_row("all", *_totals(reports, dry_run), style="bold")
    return table


def _totals(reports: Sequence[FileReport], dry_run: bool) -> list[str]:
    columns = zip(*(figures(report) for report in reports), strict=True)
    totals = [len(reports), *(sum(column) for column in columns)]
    if not dry_run:
        totals.append(sum(report.total("added") for report in reports))
    return [f"{total:,}" for total in totals]


def print_markdown(console: Console, reports: Sequence[FileReport]) -> None:
    """Prints one table with a row for each file, as in docs/importers.md."""
    console.print(f"| File | Format | {' | '.join(COLUMNS)} |", soft_wrap=True)
    console.print("|---|---|" + "--:|" * len(COLUMNS), soft_wrap=True)
    for report in reports:
        cells = [f"`{printable(report.name)}`", report.format or "(not read)", *map(str, figures(report))]
        console.print(f"| {' | '.join(cells)} |", soft_wrap=True)
