"""``playhead sign-in``: a link for a person, without a password."""

import argparse
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from historyapp.management.command_line import add_common_arguments, plain_errors
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import SIGN_IN_MINUTES, create_sign_in_link, usual_address


class Command(BaseCommand):
    help = f"Print a link that signs a person in to the dashboard: once, within {SIGN_IN_MINUTES} minutes."
    requires_system_checks = []  # `playhead check` runs them; they cost more than this does

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser, project=False)
        parser.add_argument("--user", metavar="NAME", help="whom to sign in (default: the owner)")
        parser.add_argument(
            "--address",
            metavar="URL",
            default=usual_address(),
            help="where the server is reached (default: %(default)s)",
        )

    def handle(self, *, user: str | None, address: str, **options: Any) -> None:
        with plain_errors():
            path = (
                bootstrap().sign_in_path if user is None else f"/sign-in/{create_sign_in_link(_named(user))}"
            )
        self.stdout.write(f"{address.rstrip('/')}{path}")


def _named(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise CommandError(f"There is nobody called {name!r}.")
    return user
