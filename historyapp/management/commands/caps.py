"""``playhead caps``: lists and sets spending caps of the project, its sessions and its API keys."""

import argparse
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from rich.table import Table

from historyapp.core.usage import MICRO, dollar_text
from historyapp.management.command_line import (
    ACTOR,
    PlayheadCommand,
    add_common_arguments,
    chosen_project,
)
from historyapp.models import Project, Session, SpendingCounter
from historyapp.services.caps import caps_of, set_caps
from historyapp.services.keys import usable_key
from historyapp.services.transactions import writing

NONE = "none"


class Command(PlayheadCommand):
    help = "List and set the spending caps of a project, its sessions and its API keys."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser(
            "list", help="list every cap with the amount spent in the current day or month (UTC)"
        )
        change = actions.add_parser("set", help="set or remove caps; by default those of the project")
        change.add_argument(
            "--day", type=_dollars, metavar="DOLLARS", help="the cap for a day in US dollars, or none"
        )
        change.add_argument(
            "--month", type=_dollars, metavar="DOLLARS", help="the cap for a month in US dollars, or none"
        )
        subject = change.add_mutually_exclusive_group()
        subject.add_argument(
            "--session",
            type=UUID,
            metavar="ID",
            help="the caps of this session, which include its forks and sub-agents",
        )
        subject.add_argument("--key", help="the caps of this API key: its first characters or its id")
        for action in actions.choices.values():
            add_common_arguments(action, nested=True)

    def handle(self, *, action: str, project: str | None, **options: Any) -> None:
        target = chosen_project(project)
        if action == "set":
            self._set(target, **{name: options[name] for name in ("day", "month", "session", "key")})
        self._list(target)

    def _set(
        self, project: Project, *, day: str | None, month: str | None, session: UUID | None, key: str | None
    ) -> None:
        texts = {"day": day, "month": month}
        limits = {
            period: None if text == NONE else round(float(text) * MICRO)
            for period, text in texts.items()
            if text is not None
        }
        if not limits:
            raise CommandError("Give --day or --month, in US dollars, or none to remove the cap.")
        with writing():
            row = None if session is None else Session.objects.filter(pk=session, project=project).first()
            if session is not None and row is None:
                raise CommandError(f"The project has no session {session}.")
            api_key = None if key is None else usable_key(project, key)
            set_caps(project, limits, session=row, key=api_key, actor=ACTOR)

    def _list(self, project: Project) -> None:
        counters = SpendingCounter.objects.capped().filter(project=project)
        caps = caps_of(list(counters.select_related("key").order_by("pk")))
        if not caps:
            self.stdout.write("There are no spending caps.")
            return
        table = Table("Of", "Cap", "Spent", "Reserved", "Left", "Ends (UTC)", box=None, pad_edge=False)
        for cap in caps:
            counter = cap.counter
            subject = f"session {counter.session_id}" if counter.session_id else "project"
            subject = f"key {counter.key.prefix}…" if counter.key else subject
            figures = [dollar_text(micros) for micros in (cap.spent, cap.reserved, cap.left)]
            table.add_row(subject, str(counter), *figures, f"{counter.ends_at:%Y-%m-%d %H:%M}")
        self.console().print(table)


def _dollars(text: str) -> str:
    try:
        is_valid = text == NONE or 0 <= float(text) <= 1e9
    except ValueError:
        is_valid = False
    if not is_valid:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an amount of US dollars nor {NONE}")
    return text
