"""``playhead import``: imports transcripts of other agents."""
# ruff: noqa: N999  (Django names commands after their modules, and nobody imports this one by name)

import argparse
from itertools import count
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.enqueue import index_imports
from historyapp.management.command_line import ACTOR, PlayheadCommand, chosen_project, printable
from historyapp.management.import_report import print_file, print_markdown, print_totals
from historyapp.management.transcripts import TranscriptFile, default_folders, find_transcripts
from historyapp.models import Project
from historyapp.services.imports.files import import_file, inspect_file
from historyapp.services.imports.parser import PROCESS_MIN_SIZE, ParserProcess, relax_garbage_collection
from historyapp.services.imports.reports import FileReport

_OPERATIONS_PER_REFRESH = 200


class Command(PlayheadCommand):
    help = (
        "Import transcripts of Claude Code, Codex and other agents. Files are never changed. Importing a "
        "file again adds nothing; if it has grown, only the new entries are added."
    )

    writes_often = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "paths",
            metavar="PATH",
            nargs="*",
            type=Path,
            help="a file, or a folder with its subfolders (default: the folders of Claude Code and Codex)",
        )
        parser.add_argument(
            "--format",
            choices=sorted(IMPORTERS),
            help="read every file in this format instead of detecting it",
        )
        parser.add_argument("--dry-run", action="store_true", help="read and report, but store nothing")
        parser.add_argument("--verbose", action="store_true", help="list every skipped record")
        parser.add_argument(
            "--markdown", action="store_true", help="print one Markdown table with a row for each file"
        )
        super().add_arguments(parser)

    def handle(self, *, paths: list[Path], verbose: bool, markdown: bool, **options: Any) -> None:
        console = self.console()
        files = self._find(paths)
        dry_run: bool = options["dry_run"]
        reports: list[FileReport] = []
        relax_garbage_collection()
        try:
            with _bar(console, files) as bar, ParserProcess() as process:
                project = None if dry_run else chosen_project(options["project"])
                for file in files:
                    report = _read(file, options["format"], project, bar, process)
                    report.name = file.label if markdown else str(file.path)
                    reports.append(report)
                    if not dry_run:
                        index_imports([report])
                    if not markdown:
                        print_file(console, report, dry_run=dry_run, verbose=verbose)
        except KeyboardInterrupt:
            raise CommandError("Stopped. Imported entries are kept. Import again to continue.") from None
        if markdown:
            print_markdown(console, reports)
        else:
            print_totals(console, reports, dry_run=dry_run, verbose=verbose)
        if not any(report.sessions for report in reports):
            raise CommandError("Nothing could be read.")
        unread = [
            printable(str(file.path))
            for file, report in zip(files, reports, strict=True)
            if file.path in paths and report.error and not report.format and not report.unknown_format
        ]
        if unread:
            raise CommandError(f"Not read: {', '.join(unread)}. The other files were imported.")

    def _find(self, paths: list[Path]) -> list[TranscriptFile]:
        """The files at the paths, by default in the folders of Claude Code and Codex."""
        sources = paths or [folder for folder in default_folders() if folder.is_dir()]
        if not sources:
            claude, codex = (printable(str(folder)) for folder in default_folders())
            raise CommandError(
                f"There are no transcripts of Claude Code in {claude} or of Codex in {codex}. "
                "Name a file or a folder, for example `playhead import FOLDER`."
            )
        names = ", ".join(printable(str(source)) for source in sources)
        if not paths:
            self.stderr.write(f"Reading {names}.")
        files = list(find_transcripts(sources))
        if not files:
            raise CommandError(f"There are no transcripts in {names}. Name another file or folder.")
        return files


def _read(
    file: TranscriptFile, format: str | None, project: Project | None, bar: Progress, process: ParserProcess
) -> FileReport:
    """Imports one file and returns the report. Without a project, nothing is stored."""
    report = FileReport(file.label, error=file.error)
    task, operations = bar.tasks[0], count()

    def follow(position: int) -> None:
        if next(operations) % _OPERATIONS_PER_REFRESH == 0:
            bar.update(task.id, completed=task.fields["done"] + position)

    if not file.error:
        try:
            with file.path.open("rb") as stream:
                source = Source(file.path.name, stream, str(file.path.parent))
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
    bar.update(task.id, completed=task.fields["done"] + file.size, done=task.fields["done"] + file.size)
    return report


def _bar(console: Console, files: list[TranscriptFile]) -> Progress:
    """A progress bar for the bytes of all files; hidden unless the output is a terminal."""
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task("", total=sum(file.size for file in files), done=0)
    return bar
