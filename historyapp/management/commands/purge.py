"""``playhead purge``: deletes sessions that were archived long ago."""

import argparse
import sys
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from historyapp.management.command_line import (
    ACTOR,
    PlayheadCommand,
    chosen_project,
    plural,
    printable,
    whole_number,
)
from historyapp.models import Project
from historyapp.services.deletions import delete_hidden_sessions
from historyapp.services.retention import blocked_by_forks, purge, purgeable

_MAX_FORKS = 10
"""The maximum number of forks that are listed for a session that they block."""


class Command(PlayheadCommand):
    help = (
        "Delete sessions that were archived long ago. This cannot be undone. A session is kept as long as it "
        "has forks that are kept."
    )
    writes_often = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--archived-before",
            type=whole_number("a number of days", 0, 36500),
            required=True,
            metavar="DAYS",
            help="delete sessions archived at least this many days ago",
        )
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *, archived_before: int, yes: bool, project: str | None, **options: Any) -> None:
        limit = timezone.now() - timedelta(days=archived_before)
        target = chosen_project(project)
        if ended := delete_hidden_sessions():
            self.stdout.write(f"Completed the interrupted deletion of {plural(ended, 'session')}.")
        sessions = purgeable(target, limit)
        blocked = self._name_blocking_forks(target, limit)
        if not sessions:
            if not blocked:
                age = f" {plural(archived_before, 'day')} ago or earlier" if archived_before else ""
                self.stdout.write(f"No session was archived{age}.")
            return
        for session in sessions:
            self.stdout.write(f"{session.pk} {printable(session.title)}")
        if not yes:
            if not sys.stdin.isatty():
                raise CommandError("Standard input is not a terminal. Add --yes to delete without asking.")
            question = f"Delete {plural(len(sessions), 'session')} permanently? Type yes: "
            if input(question).strip().lower() != "yes":
                raise CommandError("Nothing was deleted.")
        purged = purge(target, [session.pk for session in sessions], limit, actor=ACTOR)
        self.stdout.write(
            f"{plural(purged.sessions, 'session')} and {plural(purged.entries, 'entry')} deleted."
        )

    def _name_blocking_forks(self, project: Project, limit: datetime) -> int:
        """Prints the sessions that are kept because of their forks. Returns the number of these sessions."""
        blocked_sessions = blocked_by_forks(project, limit)
        for blocked in blocked_sessions:
            forks = [
                f"{fork.pk} ({fork.status}) {printable(fork.title)}" for fork in blocked.forks[:_MAX_FORKS]
            ]
            more = len(blocked.forks) - len(forks)
            forks += [f"and {plural(more, 'fork')} more"] if more else []
            name = f"{blocked.session.pk} {printable(blocked.session.title)}"
            self.stdout.write(
                f"{name.rstrip()} stays: it shares its entries with {', '.join(forks)}. "
                "To delete it, archive these forks too."
            )
        return len(blocked_sessions)
