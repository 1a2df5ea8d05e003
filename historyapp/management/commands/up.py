"""``playhead up``: prepares the data folder and the database, and starts the server."""

import argparse
import os
import time
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from uuid_utils.compat import uuid7

from historyapp.management.command_line import PlayheadCommand, advice_on, whole_number
from historyapp.models import Session
from historyapp.models.database_clock import CLOCK
from historyapp.running_servers import orphan_listens
from historyapp.server import EVERYWHERE, STOP_SECONDS, CannotListen, claim
from historyapp.services.bootstrap import Bootstrap, bootstrap, startup_lock
from historyapp.services.changes import reset_transaction_ids
from historyapp.services.faults import check_at_start, fault_of
from historyapp.supervisor import ServerPlan, become_supervisor
from historyapp.wire.problems import DatabaseUnreachable

ORPHAN_SECONDS = STOP_SECONDS + 5
"""Seconds to wait for the web process of a killed server, which first finishes its running requests."""

DATABASE_SECONDS = 10
"""Seconds to wait for PostgreSQL, which may be starting or recovering from a crash."""


class Command(PlayheadCommand):
    help = "Prepare the data folder and the database, then serve Playhead until Ctrl-C."
    in_project = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument(
            "--port",
            type=whole_number("a port", 0, 65535),
            default=8000,
            help="port to listen on; 0 uses any free port (default: %(default)s)",
        )
        super().add_arguments(parser)
        parser.add_argument(
            "--threads",
            type=whole_number("a number of threads", 1, 512),
            default=4,
            help="threads for requests that read, and the same number for requests that write",
        )
        parser.add_argument("--no-demo", action="store_true", help="do not load the demo on the first run")

    def handle(self, *, host: str, port: int, threads: int, no_demo: bool, **options: Any) -> None:
        try:
            ip, port = _claim_from_orphan(host, port)
        except CannotListen as error:
            raise CommandError(f"{error} Choose another with --port (make up PORT=9000).") from error
        if host not in EVERYWHERE:
            settings.ALLOWED_HOSTS.append(_bracketed(host))
            os.environ["ALLOWED_HOSTS"] = ",".join(settings.ALLOWED_HOSTS)  # for the server process
        if damage := check_at_start():
            name = connection.settings_dict["NAME"]
            raise CommandError(
                f"The database {name} is damaged: {damage}. Restore a backup, or see "
                '"Faults of the database" in docs/operations.md.'
            )
        CLOCK.was_just_set()  # so that later processes know that the clock was set after this start
        bootstrapped = self._prepare_database()
        address = f"http://{_bracketed(EVERYWHERE.get(host, host))}:{port}"

        wants_demo = bool(not no_demo and bootstrapped.api_key and demo_is_missing())
        api_key = bootstrapped.api_key or "revoked; create another: playhead keys create NAME"
        data = str(settings.PLAYHEAD_HOME)
        if connection.vendor != "sqlite":
            data = f"PostgreSQL database {settings.DATABASES['default']['NAME']}"
        connections.close_all()
        become_supervisor(
            ServerPlan(
                ip=ip,
                port=port,
                threads=threads,
                head_seconds=settings.PLAYHEAD_HEAD_SECONDS,
                address=address,
                home=str(settings.PLAYHEAD_HOME),
                sqlite=str(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else "",
                welcome=[
                    f"Playhead ready at {address}",
                    f"  Sign in   {settings.PLAYHEAD_BASE_URL or address}{bootstrapped.sign_in_path}",
                    "            (this link works once, for 15 minutes; the next start prints a new one)",
                    f"  API key   {api_key}",
                    f"  Data      {data}",
                    "  Ctrl-C stops it.",
                ],
                demo_key=(wants_demo and bootstrapped.api_key) or "",
                worker_id=str(uuid7()),
                logging=settings.LOGGING,
            )
        )

    def _prepare_database(self) -> Bootstrap:
        """Creates the tables and the first rows. Waits for a database that is starting.

        Raises:
            CommandError: when the database cannot be used, or does not respond in time.
        """
        end = time.monotonic() + DATABASE_SECONDS
        is_first_failure = True
        while True:
            try:
                return _tables_and_first_rows()
            except DatabaseError as error:
                reason, *_ = str(error).strip().split("\n")
                fault = fault_of(error)
                if not isinstance(fault, DatabaseUnreachable) or time.monotonic() > end:
                    advice = f". {advice_on(fault)}" if fault else ""
                    raise CommandError(f"The database cannot be used: {reason}{advice}") from error
            if is_first_failure:
                self.stderr.write(f"Waiting up to {DATABASE_SECONDS} s for the database: {reason}")
                is_first_failure = False
            connections.close_all()
            time.sleep(0.5)


def _tables_and_first_rows() -> Bootstrap:
    with startup_lock():
        # Comparing names is much faster than planning migrations.
        applied = MigrationRecorder(connection).applied_migrations()
        if not _migrations_on_disk() <= applied.keys():
            call_command("migrate", verbosity=0, interactive=False)
        reset_transaction_ids()
        return bootstrap()


def _claim_from_orphan(host: str, port: int) -> tuple[str, int]:
    """Like :func:`claim`, but waits until the web process of a killed server of this data folder has ended.

    Raises:
        CannotListen: when another program listens there, or the process has not ended in time.
    """
    end = time.monotonic() + ORPHAN_SECONDS
    while True:
        try:
            return claim(host, port)
        except CannotListen:
            # If the process ended between the attempt and this check, the next attempt succeeds.
            if not orphan_listens(settings.PLAYHEAD_HOME, port):
                return claim(host, port)
            if time.monotonic() > end:
                raise
        time.sleep(0.05)


def demo_is_missing() -> bool:
    """Whether there are no sessions except those of an unfinished demo."""
    if Session.objects.exclude(pk__in=Session.objects.tagged(["demo"]).values("pk")).exists():
        return False
    from historyapp.demo import SESSIONS  # it loads an HTTP client, which takes a tenth of the start

    return Session.objects.count() < SESSIONS


def _migrations_on_disk() -> set[tuple[str, str]]:
    modules = {app.label: MigrationLoader.migrations_module(app.label)[0] for app in apps.get_app_configs()}
    return {
        (label, name)
        for label, module in modules.items()
        if module and find_spec(module)
        for _, name, is_package in iter_modules(import_module(module).__path__)
        if not is_package and name[0] not in "_~"
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
