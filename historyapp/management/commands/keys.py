"""``playhead keys``: lists, creates and revokes API keys, and changes their scopes."""

import argparse
from datetime import timedelta
from typing import Any

from django.utils import timezone
from rich.table import Table

from historyapp.core.text import clean
from historyapp.management.command_line import (
    ACTOR,
    PlayheadCommand,
    add_common_arguments,
    chosen_project,
    printable,
    whole_number,
)
from historyapp.models import SCOPES, ApiKey, Project
from historyapp.services.keys import change_scopes, create_key, revoke_key, usable_key
from historyapp.services.transactions import writing

_SCOPES_HELP = f"a comma-separated list of {', '.join(SCOPES)} (default: %(default)s)"


class Command(PlayheadCommand):
    help = "List, create and revoke the API keys of a project, and change their scopes."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list every key of the project, including revoked and expired keys")
        create = actions.add_parser("create", help="create a key and print it, once")
        create.add_argument(
            "name", metavar="NAME", type=_name, help="what the key is for, for example the agent's name"
        )
        create.add_argument("--scopes", default="read,write", help=_SCOPES_HELP)
        create.add_argument(
            "--expires",
            type=whole_number("a number of days", 1, 36500),
            metavar="DAYS",
            help="expire after this many days (default: never)",
        )
        revoke = actions.add_parser("revoke", help="revoke a key; it stops working at once")
        revoke.add_argument(
            "key",
            metavar="KEY",
            help="the first characters of the key, as in the list, or its id if several keys begin with them",
        )
        grant = actions.add_parser("grant", help="give a key more scopes; they apply from its next request")
        withdraw = actions.add_parser("withdraw", help="take scopes away from a key")
        for subparser in (grant, withdraw):
            subparser.add_argument("key", metavar="KEY", help="as for revoke")
            subparser.add_argument("--scopes", default="spend", help=_SCOPES_HELP)
        for action in actions.choices.values():
            add_common_arguments(action, nested=True)

    def handle(self, *, action: str, project: str | None, **options: Any) -> None:
        target = chosen_project(project)
        match action:
            case "list":
                self._list(target)
            case "create":
                days = options["expires"]
                expires_at = timezone.now() + timedelta(days=days) if days else None
                scopes = _scopes(options["scopes"])
                _, text = create_key(
                    target, options["name"], scopes=scopes, expires_at=expires_at, actor=ACTOR
                )
                self.stdout.write(text)
                self.stdout.flush()
                self.stderr.write("Store it now: it cannot be shown again.")
            case "revoke":
                key = revoke_key(target, options["key"], actor=ACTOR)
                self.stdout.write(f"{printable(key.name)} ({key.prefix}…) is revoked.")
            case "grant" | "withdraw":
                scopes = _scopes(options["scopes"])
                changes = {"add" if action == "grant" else "remove": scopes}
                with writing():
                    key = change_scopes(usable_key(target, options["key"]), **changes, actor=ACTOR)
                self.stdout.write(
                    f"{printable(key.name)} ({key.prefix}…) now has the scopes {', '.join(key.scopes)}."
                )

    def _list(self, project: Project) -> None:
        table = Table("Prefix", "Name", "Scopes", "Created", "Last used", "State", box=None, pad_edge=False)
        now = timezone.now()
        for key in ApiKey.objects.filter(project=project).order_by("created_at", "id"):
            last_used, state = str(key.last_used_at.date()) if key.last_used_at else "never", "works"
            if key.revoked_at:
                state = f"revoked {key.revoked_at.date()}"
            elif key.expires_at is not None:
                state = f"{'works until' if key.expires_at > now else 'expired'} {key.expires_at.date()}"
            name, scopes = printable(key.name), ", ".join(key.scopes)
            table.add_row(f"{key.prefix}…", name, scopes, str(key.created_at.date()), last_used, state)
        self.console().print(table)


def _scopes(text: str) -> list[str]:
    return [scope.strip() for scope in text.split(",") if scope.strip()]


def _name(text: str) -> str:
    if not 1 <= len(text) <= 200 or text != clean(text):
        raise argparse.ArgumentTypeError("a name has 1 to 200 characters")
    return text
