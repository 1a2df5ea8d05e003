"""``playhead compress``: a session's steps into summaries, here or by the workers."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from historyapp.core.strategies import STRATEGIES
from historyapp.management.command_line import (
    ACTOR,
    add_common_arguments,
    chosen_project,
    console_on,
    plain_errors,
    plural,
)
from historyapp.management.exit_codes import INTERRUPTED
from historyapp.models import CompressionRun, Worker
from historyapp.services.compression.run import work_on
from historyapp.services.compression.start import RunRequest, RunStart, start_run
from historyapp.services.prices import money_text
from historyapp.tasks import wake

LOOK_SECONDS = 0.2
"""Between two looks at how far a run is."""


class Command(BaseCommand):
    help = (
        "Summarise a session's older steps, or join the compression that is under way. Workers do it when "
        "there are any; else, or with --wait, it is done here, with a bar."
    )
    requires_system_checks = []  # `playhead check` runs them; they cost more than this does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("session", metavar="SESSION", type=_session, help="its id")
        parser.add_argument(
            "--strategy", help=f"{', '.join(STRATEGIES)} (default: the one in the session's settings)"
        )
        parser.add_argument(
            "--from",
            dest="from_step",
            metavar="STEP",
            type=int,
            help="first step; negative numbers count from the end (default: all but the newest steps)",
        )
        parser.add_argument("--to", dest="to_step", metavar="STEP", type=int, help="last step")
        parser.add_argument("--model", help="PROVIDER:MODEL, or local; default: as the settings say")
        parser.add_argument(
            "--again", action="store_true", help="also the steps that have a summary of this strategy"
        )
        parser.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            help="work on it here until it has ended (default: when no worker is running)",
        )
        add_common_arguments(parser)

    def handle(self, *, session: UUID, wait: bool | None, **options: Any) -> None:
        console = console_on(self.stdout)
        names = ("strategy", "from_step", "to_step", "model", "again")
        wish = RunRequest(**{name: options[name] for name in names})
        with plain_errors():
            project = chosen_project(options["project"])
            started = start_run(project, session, wish, actor=ACTOR)
            console.print(_told(started))
            if wait is None:
                wait = not Worker.objects.alive().exists()
            if started.run.active and not wait:
                wake(started.run.pk)
                console.print(f"Workers carry it out as {started.run.pk}. With --wait it is done here.")
                return
            run = _ended(console, started.run)
        _report(console, run)


def _session(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a session") from None


def _told(started: RunStart) -> str:
    run = started.run
    if run.to_step < run.from_step:
        return f"Nothing to do by {run.strategy}."
    steps = f"step {run.to_step}"
    if run.from_step < run.to_step:
        steps = f"steps {run.from_step} to {run.to_step}"
    by = f"{run.strategy} with {run.model}" if run.model else run.strategy
    already = "Under way already: " if started.joined else ""
    return f"{already}{steps} by {by}."


def _ended(console: Console, run: CompressionRun) -> CompressionRun:
    """The run once it has ended. What other workers are at is waited for."""
    stop = Event()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=None)
    with ThreadPoolExecutor(1) as pool, bar:
        working = pool.submit(_work, run.pk, stop)
        try:
            while not working.done():
                time.sleep(LOOK_SECONDS)
                run.refresh_from_db()
                bar.update(task, total=run.total if run.planned else None, completed=run.done + run.failed)
        except KeyboardInterrupt:
            stop.set()
            raise CommandError(
                "Stopped. What was summarised stays; the rest is done by a worker, or by this command again.",
                returncode=INTERRUPTED,
            ) from None
        working.result()
    run.refresh_from_db()
    return run


def _work(run: UUID, stop: Event) -> None:
    try:
        while not stop.is_set():
            work_on(run, stop.is_set)
            if not CompressionRun.objects.active().filter(pk=run).exists():
                return
            stop.wait(LOOK_SECONDS)
    finally:
        connection.close()


def _report(console: Console, run: CompressionRun) -> None:
    """What has come of it.

    Raises:
        CommandError: when not everything has.
    """
    if run.done:
        made, before = plural(run.done, "summary"), plural(run.tokens_before, "token")
        console.print(f"{made}: {before} of steps have become {run.tokens_after:,}. {_money(run)}".rstrip())
    if run.state != run.State.SUCCEEDED:
        raise CommandError(run.note)
    if run.note:
        console.print(run.note)


def _money(run: CompressionRun) -> str:
    if not run.calls:
        return ""
    return f"The model was called {plural(run.calls, 'time')} {money_text(run.cost, run.prices_as_of)}."
