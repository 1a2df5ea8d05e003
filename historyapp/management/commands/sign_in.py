"""``playhead sign-in``: a link for a person, without a password."""

import argparse
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from historyapp.env import is_origin
from historyapp.management.command_line import add_common_arguments, plain_errors
from historyapp.running import running_address
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import SIGN_IN_MINUTES, create_sign_in_link, usual_address

NOT_RUNNING = (
    "No server runs on the data folder {}: start it with `playhead up` and open the link then, or say with "
    "--address where it is reached."
)


class Command(BaseCommand):
    help = f"Print a link that signs a person in to the dashboard: once, within {SIGN_IN_MINUTES} minutes."
    requires_system_checks = []  # `playhead check` runs them; they cost more than this does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser, project=False)
        parser.add_argument("--user", metavar="NAME", help="whom to sign in (default: the owner)")
        parser.add_argument(
            "--address",
            type=_address,
            metavar="URL",
            help="where the server is reached (default: PLAYHEAD_BASE_URL, else the server that runs here)",
        )

    def handle(self, *, user: str | None, address: str | None, **options: Any) -> None:
        with plain_errors():
            path = (
                bootstrap().sign_in_path if user is None else f"/sign-in/{create_sign_in_link(_named(user))}"
            )
        self.stdout.write(f"{address or usual_address()}{path}")
        if not (address or settings.PLAYHEAD_BASE_URL or running_address(settings.PLAYHEAD_HOME)):
            self.stdout.flush()
            self.stderr.write(NOT_RUNNING.format(settings.PLAYHEAD_HOME))


def _named(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(f"There is nobody called {name!r}.")
    return user


def _address(text: str) -> str:
    address = text.strip().rstrip("/")
    if not is_origin(address):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the address of a server: write http://HOST:PORT or https://HOST"
        )
    return address
