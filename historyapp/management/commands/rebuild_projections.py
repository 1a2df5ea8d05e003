"""``playhead rebuild-projections``: rebuilds the projections from the log and compares them."""

import argparse
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from historyapp.management.command_line import PlayheadCommand, plural, printable
from historyapp.models import Project, Session
from historyapp.services.figures.day_checks import rebuild_days
from historyapp.services.projections import RebuildReport, parents_first, rebuild

FIRST_DIFFERENCES = 10
"""The maximum number of differences listed for a session. Others are only counted."""

EARLIER = (
    "an earlier version recorded entry {} and later ones without totals by model; this cannot change and "
    "does not count as a difference; the session's own totals are rebuilt"
)
UNCHECKED = "cannot be checked before the session it was forked from is rebuilt"


class Command(PlayheadCommand):
    help = (
        "Rebuild counters, step rows, figures and text blocks from the log and report where they differed. "
        "In an intact database nothing differs."
    )
    in_project = False
    writes_often = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "sessions", metavar="SESSION", nargs="*", type=UUID, help="ids (default: all sessions)"
        )
        parser.add_argument(
            "--check", action="store_true", help="change nothing; exit with 1 if anything differs"
        )

    def handle(self, *, sessions: list[UUID], check: bool, **options: Any) -> None:
        reports: list[RebuildReport] = []
        differing: set[UUID | None] = set()
        selected = _with_parents(sessions)
        for session in parents_first():
            if sessions and session.pk not in selected:
                continue
            if check and session.forked_from_id in differing:
                reports.append(RebuildReport(session, differences=[UNCHECKED]))
            else:
                reports.append(rebuild(session, check_only=check))
            if reports[-1].differences:
                differing.add(session.pk)
            if reports[-1].differences or reports[-1].without_models is not None:
                self._report(reports[-1])
        days = 0
        for project in [] if sessions else list(Project.objects.order_by("pk")):
            if differing_days := rebuild_days(project, check_only=check):
                days += differing_days
                rows = plural(differing_days, "row")
                self.stdout.write(f"project {printable(project.name)}\n    {rows} of figures by day differed")
        entries = sum(rebuilt.entries for rebuilt in reports)
        read = f"{plural(len(reports), 'session')} with {plural(entries, 'entry')} read"
        numbers = ((len(differing), "session"), (days, "row of figures by day"))
        counts = [plural(number, name) for number, name in numbers if number]
        if check and counts:
            raise CommandError(f"{read}: {' and '.join(counts)} would change.")
        changed = f"{' and '.join(counts)} changed" if counts else "no differences"
        self.stdout.write(f"{read}: {changed}.")

    def _report(self, rebuilt: RebuildReport) -> None:
        self.stdout.write(f"{rebuilt.session.pk} {printable(rebuilt.session.title)}")
        if rebuilt.without_models is not None:
            self.stdout.write(f"    {EARLIER.format(rebuilt.without_models)}")
        for difference in rebuilt.differences[:FIRST_DIFFERENCES]:
            self.stdout.write(f"    {difference}")
        unlisted = len(rebuilt.differences) - FIRST_DIFFERENCES
        if unlisted > 0:
            self.stdout.write(f"    {plural(unlisted, 'more difference')}")


def _with_parents(ids: Iterable[UUID]) -> set[UUID]:
    """The sessions and the sessions that they were forked from, because a fork needs its parent's rows."""
    selected: set[UUID] = set()
    for id in ids:
        session = Session.objects.filter(pk=id).first()
        if session is None:
            raise CommandError(f"There is no session {id}.")
        while session is not None:
            selected.add(session.pk)
            session = session.forked_from
    return selected
