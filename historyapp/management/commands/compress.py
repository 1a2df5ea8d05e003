"""``playhead compress``: summarises a session's steps, here or in the workers."""

import argparse
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from historyapp.core.strategies import STRATEGIES
from historyapp.enqueue import wake
from historyapp.management.command_line import ACTOR, PlayheadCommand, chosen_project, plural
from historyapp.management.exit_codes import INTERRUPTED
from historyapp.models import CompressionRun, Project, Session, Worker
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import RunStart, start_run
from historyapp.services.prices import money_text
from historyapp.services.summary_writers.writers import WRITER

LAST = "last"
"""Stands for the session with the newest entry."""
_ID_OR_PREFIX = re.compile("[0-9a-f]{4}[0-9a-f-]{0,32}")
REFRESH_SECONDS = 0.2
"""Seconds between two reads of the run's progress."""


class Command(PlayheadCommand):
    help = (
        "Summarise a session's older steps, or join the compression that is running. Without a running "
        "worker, or with --wait, this command does the work and shows a progress bar."
    )
    writes_often = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "session",
            metavar="SESSION",
            type=_session_name,
            help="a session: its id, the first characters of its id, or `last`",
        )
        parser.add_argument(
            "--strategy", help=f"one of {', '.join(STRATEGIES)} (default: the session's setting)"
        )
        parser.add_argument(
            "--from",
            dest="from_step",
            metavar="STEP",
            type=int,
            help="first step; negative numbers count from the end (default: all steps except the newest)",
        )
        parser.add_argument("--to", dest="to_step", metavar="STEP", type=int, help="last step")
        parser.add_argument("--model", help="PROVIDER:MODEL or local (default: the session's setting)")
        parser.add_argument(
            "--again",
            action="store_true",
            help="also summarise steps that already have a summary of this strategy",
        )
        parser.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            help="always do the work in this process, or never (default: only if no worker is running)",
        )
        super().add_arguments(parser)

    def handle(self, *, session: str, wait: bool | None, **options: Any) -> None:
        console = self.console()
        names = ("strategy", "from_step", "to_step", "model", "again")
        request = RunRequest(**{name: options[name] for name in names})
        project = chosen_project(options["project"])
        started = start_run(project, _session_id(project, session), request, actor=ACTOR)
        console.print(_description(started))
        if wait is None:
            wait = not Worker.objects.alive().exists()
        if started.run.active and not wait:
            wake(started.run.pk)
            console.print(f"Workers do this as run {started.run.pk}. With --wait, this command does it.")
            return
        run = _finish(console, started.run)
        if run.done:
            text = f"{plural(run.done, 'summary')}: {plural(run.tokens_before, 'token')} of steps became"
            text += f" {run.tokens_after:,}."
            if run.calls:
                cost = money_text(run.cost, run.prices_as_of)
                text += f" The model was called {plural(run.calls, 'time')} {cost}."
            console.print(text)
        if run.state != run.State.SUCCEEDED:
            raise CommandError(run.note)
        if run.note:
            console.print(run.note)


def _session_name(text: str) -> str:
    name = text.lower()
    if name != LAST and not _ID_OR_PREFIX.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the id of a session, at least the first four characters of it, or {LAST}"
        )
    return name


def _session_id(project: Project, name: str) -> UUID:
    """The id of the session that ``SESSION`` refers to, as in ``playhead show SESSION``."""
    if len(name.replace("-", "")) == 32:
        return UUID(name)
    sessions = Session.objects.filter(project=project).newest_first()
    if name == LAST:
        ids = list(sessions.values_list("pk", flat=True)[:1])
    else:
        ids = list(sessions.with_prefix(name).values_list("pk", flat=True)[:2])
    if not ids:
        raise CommandError(
            "There are no sessions yet." if name == LAST else f"No session begins with {name}."
        )
    if len(ids) > 1:
        raise CommandError(f"Several sessions begin with {name}. Give more of the id.")
    return ids[0]


def _description(started: RunStart) -> str:
    run = started.run
    if run.to_step < run.from_step:
        return f"{run.strategy} has nothing to do."
    steps = f"step {run.to_step}"
    if run.from_step < run.to_step:
        steps = f"steps {run.from_step} to {run.to_step}"
    method = f"{run.strategy} with {run.model}" if run.model else run.strategy
    prefix = "Already running: " if started.joined else ""
    return f"{prefix}{steps} by {method}."


def _finish(console: Console, run: CompressionRun) -> CompressionRun:
    """Works on the run and waits until it has ended, including the items of other workers."""
    stop = Event()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=None)
    with ThreadPoolExecutor(1) as pool, bar:
        future = pool.submit(copy_context().run, _work, run.pk, stop)  # which says whether writes give way
        try:
            while not future.done():
                time.sleep(REFRESH_SECONDS)
                run.refresh_from_db()
                bar.update(task, total=run.total if run.planned else None, completed=run.done + run.failed)
        except KeyboardInterrupt:
            stop.set()
            raise CommandError(
                "Stopped. Finished summaries are kept. A worker makes the others, or run this command again.",
                returncode=INTERRUPTED,
            ) from None
        future.result()
    run.refresh_from_db()
    return run


def _work(run: UUID, stop: Event) -> None:
    try:
        while not stop.is_set():
            process_run(run, stop.is_set, WRITER, stop.is_set)
            if not CompressionRun.objects.active().filter(pk=run).exists():
                return
            stop.wait(REFRESH_SECONDS)
    finally:
        connection.close()
