"""Shared code of the commands: choosing a project, one-sentence errors, and text that is safe to print."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Any, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from rich.console import Console

from historyapp.core.errors import Invalid, PlayheadError
from historyapp.core.text import clean
from historyapp.disk import watched_folder
from historyapp.full_disk import full_disk
from historyapp.management.exit_codes import WRONG_USAGE
from historyapp.models import Project
from historyapp.models.projects import PURGED
from historyapp.models.vendor import on_sqlite
from historyapp.running_servers import running_address
from historyapp.services.bootstrap import default_project
from historyapp.services.faults import fault_of
from historyapp.services.releases import refuse_newer_database
from historyapp.services.transactions import giving_way
from historyapp.wire.problems import DiskFull, StorageFailed

ACTOR = "command line"
"""The actor in audit records."""

_PIPE_WIDTH = 160


def add_common_arguments(
    parser: argparse.ArgumentParser, *, project: bool = True, nested: bool = False
) -> None:
    """Adds ``--project``, and ``--home``, which ``historyapp.__main__`` removes before a command sees it.

    Args:
        nested: the parser belongs to an action of a command with the same options. Values before the action
            are kept.
    """
    default = argparse.SUPPRESS if nested else None
    parser.add_argument(
        "--home", metavar="DIR", default=default, help="data folder (default: PLAYHEAD_HOME, else .playhead)"
    )
    if project:
        parser.add_argument(
            "--project", metavar="NAME", default=default, help="the project (default: the oldest)"
        )


def whole_number(description: str, minimum: int, maximum: int) -> Callable[[str], int]:
    """The ``type`` of an argument: a whole number within bounds.

    Args:
        description: what the number is, such as "a port".
    """

    def parse(text: str) -> int:
        if not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r} is not {description} ({minimum} to {maximum})")
        return int(text)

    return parse


def chosen_project(name: str | None) -> Project:
    """The project that ``--project`` names, by default the oldest.

    Raises:
        CommandError: when no project or several projects have this name.
    """
    if name is None:
        return default_project()
    projects = list(Project.objects.filter(name=clean(name))[:2])
    if len(projects) == 1:
        return projects[0]
    if projects:
        raise CommandError(f"Several projects are called {name!r}. Rename one of them first.")
    existing = Project.objects.exclude(pk=PURGED)
    names = ", ".join(existing.order_by("created_at").values_list("name", flat=True)[:20])
    raise CommandError(f"There is no project {name!r}. The projects are: {names or 'none yet'}.")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns expected errors into one sentence and an exit code.

    The exit code is 2 for requests that can never succeed (422 in the API), otherwise 1.
    """
    try:
        yield
    except Invalid as error:
        raise CommandError(error.detail, returncode=WRONG_USAGE) from error
    except PlayheadError as error:
        raise CommandError(error.detail) from error
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    except DatabaseError as error:
        reason, *_ = str(error).strip().split("\n")
        if fault := fault_of(error):
            raise CommandError(f"{advice_on(fault)} ({reason})") from error
        raise CommandError(
            f"There is no Playhead data in {settings.PLAYHEAD_HOME} ({reason}). Run the command in the "
            "folder in which Playhead was started, or give its data folder with --home."
        ) from error


def advice_on(fault: StorageFailed) -> str:
    """What is wrong with the database, and what to do."""
    return full_disk(watched_folder()) if isinstance(fault, DiskFull) and on_sqlite() else fault.detail


class PlayheadCommand(BaseCommand):
    """A command with the common arguments and :func:`plain_errors`."""

    requires_system_checks = []  # Django's checks take longer than most commands; `playhead check` runs them
    in_project = True
    """Whether the command has ``--project``."""
    writes_often = False
    """Whether the command gives a running server its turn after each transaction, as the server's own long
    requests do."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_common_arguments(parser, project=self.in_project)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """The parser, which names the command as people type it: ``sign-in`` for the module ``sign_in``."""
        return super().create_parser(prog_name, subcommand.replace("_", "-"), **kwargs)

    def execute(self, *args: Any, **options: Any) -> str | None:
        with plain_errors():
            if not options.get("dry_run"):  # the only command here that needs no database
                refuse_newer_database()
            has_server = self.writes_often and running_address(settings.PLAYHEAD_HOME) is not None
            with giving_way() if has_server else nullcontext():
                return super().execute(*args, **options)

    def console(self) -> Console:
        """A rich console that writes where the command writes and does not interpret markup."""
        self.stdout.ending = ""
        width = None if self.stdout.isatty() else _PIPE_WIDTH
        file = cast(IO[str], self.stdout)
        return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def printable(text: str) -> str:
    """The text with control characters and lone surrogates escaped, because they could change the
    terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plural(count: int, noun: str) -> str:
    """``1 step``, ``2,000 steps``, ``3 entries``."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun}"
