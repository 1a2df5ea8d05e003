"""``playhead sign-in``: prints a link that signs a user in without a password."""

import argparse
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from historyapp.env import is_origin
from historyapp.management.command_line import PlayheadCommand
from historyapp.running_servers import running_address
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import SIGN_IN_MINUTES, create_sign_in_link, default_address

NOT_RUNNING = (
    "No server is running on the data folder {}. Start it with `playhead up` before you open the link, or "
    "give the server's address with --address."
)


class Command(PlayheadCommand):
    help = f"Print a link that signs a user in to the dashboard once, within {SIGN_IN_MINUTES} minutes."
    in_project = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--user", metavar="NAME", help="the user to sign in (default: the owner)")
        parser.add_argument(
            "--address",
            type=_address,
            metavar="URL",
            help="the server's address (default: PLAYHEAD_BASE_URL, else the running server's address)",
        )

    def handle(self, *, user: str | None, address: str | None, **options: Any) -> None:
        if user is None:
            path = bootstrap().sign_in_path
        else:
            person = User.objects.filter(username=user, is_active=True).first()
            if person is None:
                raise CommandError(f"There is no user {user!r}.")
            path = f"/sign-in/{create_sign_in_link(person)}"
        self.stdout.write(f"{address or default_address()}{path}")
        if not (address or settings.PLAYHEAD_BASE_URL or running_address(settings.PLAYHEAD_HOME)):
            self.stdout.flush()
            self.stderr.write(NOT_RUNNING.format(settings.PLAYHEAD_HOME))


def _address(text: str) -> str:
    address = text.strip().rstrip("/")
    if not is_origin(address):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of a server. Use http://HOST:PORT or https://HOST"
        )
    return address
