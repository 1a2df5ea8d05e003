"""``manage.py purge``: the retention job, the only thing that ever deletes entries."""

import argparse
import sys
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from historyapp.management.command_line import (
    ACTOR,
    add_common_arguments,
    chosen_project,
    plain_errors,
    plural,
    printable,
)
from historyapp.services.retention import purge, purgeable


class Command(BaseCommand):
    help = (
        "Delete, for ever, sessions that were archived long ago. A session that another one was forked from "
        "stays as long as its fork does."
    )
    requires_system_checks = []  # `playhead check` runs them; they cost more than this does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser)
        parser.add_argument(
            "--archived-before",
            type=_days,
            required=True,
            metavar="DAYS",
            help="archived at least so many days ago",
        )
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *, archived_before: int, yes: bool, project: str | None, **options: Any) -> None:
        limit = timezone.now() - timedelta(days=archived_before)
        with plain_errors():
            target = chosen_project(project)
            sessions = purgeable(target, limit)
            if not sessions:
                self.stdout.write(f"Nothing was archived {plural(archived_before, 'day')} ago or earlier.")
                return
            for session in sessions:
                self.stdout.write(f"{session.pk} {printable(session.title)}")
            if not yes:
                _confirm(f"Delete {plural(len(sessions), 'session')} for ever? Type yes: ")
            purged = purge(target, [session.pk for session in sessions], limit, actor=ACTOR)
        self.stdout.write(
            f"{plural(purged.sessions, 'session')} and {plural(purged.entries, 'entry')} deleted."
        )


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nobody is there to ask. Add --yes to delete without asking.")
    if input(question).strip().lower() != "yes":
        raise CommandError("Nothing was deleted.")


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) > 36500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days (0 to 36500)")
    return int(text)
