"""``playhead import``: transcripts of other agents into sessions."""
# ruff: noqa: N999  (Django names commands after their modules, and nobody imports this one by name)

import argparse
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.management.command_line import (
    ACTOR,
    add_common_arguments,
    chosen_project,
    console_on,
    plain_errors,
    printable,
)
from historyapp.management.import_report import print_file, print_markdown, print_sums
from historyapp.management.transcripts import Transcript, find_transcripts, usual_places
from historyapp.models import Project
from historyapp.services.imports.files import import_file, inspect_file
from historyapp.services.imports.parser import PROCESS_MIN_SIZE, ParserProcess, relax_garbage_collection
from historyapp.services.imports.reports import FileReport

_OPERATIONS_PER_REFRESH = 200


class Command(BaseCommand):
    help = (
        "Import transcripts of Claude Code, Codex and other agents. Files are never changed. Importing again "
        "adds nothing, and a file that has grown adds only what is new."
    )
    requires_system_checks = []  # `playhead check` runs them; they cost more than this does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "paths",
            metavar="PATH",
            nargs="*",
            type=Path,
            help="a file, or a folder and all below it (default: where Claude Code and Codex keep theirs)",
        )
        parser.add_argument(
            "--format", choices=sorted(IMPORTERS), help="do not detect the format of each file"
        )
        parser.add_argument("--dry-run", action="store_true", help="read and report, but store nothing")
        parser.add_argument("--verbose", action="store_true", help="name every record that was skipped")
        parser.add_argument(
            "--markdown", action="store_true", help="print one table with a row for each file"
        )
        add_common_arguments(parser)

    def handle(self, *, paths: list[Path], verbose: bool, markdown: bool, **options: Any) -> None:
        console = console_on(self.stdout)
        files = self._find(paths)
        dry_run: bool = options["dry_run"]
        reports: list[FileReport] = []
        relax_garbage_collection()
        try:
            with plain_errors(), _bar(console, files) as bar, ParserProcess() as process:
                project = None if dry_run else chosen_project(options["project"])
                for file in files:
                    report = _read(file, options["format"], project, bar, process)
                    report.name = file.label if markdown else str(file.path)
                    reports.append(report)
                    if not markdown:
                        print_file(console, report, dry_run=dry_run, verbose=verbose)
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was imported stays; import again to go on.") from None
        if markdown:
            print_markdown(console, reports)
        else:
            print_sums(console, reports, dry_run=dry_run, verbose=verbose)
        if not any(report.sessions for report in reports):
            raise CommandError("Nothing could be read.")
        if unread := _unread(paths, files, reports):
            raise CommandError(f"Not read: {', '.join(unread)}. The other files were.")

    def _find(self, paths: list[Path]) -> list[Transcript]:
        """The files below the paths, or below the usual places where no path is given."""
        places = paths or usual_places()
        if not places:
            raise CommandError("Name a file or folder: Claude Code and Codex keep no sessions here.")
        where = ", ".join(printable(str(place)) for place in places)
        if not paths:
            self.stderr.write(f"Reading {where}.")
        files = list(find_transcripts(places))
        if not files:
            raise CommandError(f"There are no transcripts in {where}.")
        return files


def _unread(named: list[Path], files: list[Transcript], reports: list[FileReport]) -> list[str]:
    """The files that were named and are missing, or cannot be read; whatever format they may be in."""
    return [
        printable(str(file.path))
        for file, report in zip(files, reports, strict=True)
        if file.path in named and report.error and not report.format and not report.unknown_format
    ]


def _read(
    file: Transcript, format: str | None, project: Project | None, bar: Progress, process: ParserProcess
) -> FileReport:
    """One file's report; without a project nothing is stored."""
    report = FileReport(file.label, error=file.error)
    if not file.error:
        try:
            with file.path.open("rb") as stream:
                source = Source(file.path.name, stream, str(file.path.parent))
                follow = _follower(bar)
                if project is None:
                    report = inspect_file(source, format=format, on_progress=follow)
                else:
                    report = import_file(
                        project,
                        source,
                        format=format,
                        actor=ACTOR,
                        on_progress=follow,
                        process=process if file.size >= PROCESS_MIN_SIZE else None,
                    )
        except OSError as error:
            report.error = error.strerror or str(error)
    task = bar.tasks[0]
    bar.update(task.id, completed=task.fields["done"] + file.size, done=task.fields["done"] + file.size)
    return report


def _bar(console: Console, files: list[Transcript]) -> Progress:
    """A bar over the bytes of all files; none where nobody watches."""
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task("", total=sum(file.size for file in files), done=0)
    return bar


def _follower(bar: Progress) -> Callable[[int], None]:
    """Moves the bar to where the file is read."""
    task, operations = bar.tasks[0], count()

    def follow(position: int) -> None:
        if next(operations) % _OPERATIONS_PER_REFRESH == 0:
            bar.update(task.id, completed=task.fields["done"] + position)

    return follow
