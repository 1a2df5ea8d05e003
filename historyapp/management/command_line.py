"""What the commands share: choosing a project, errors of one sentence, text that cannot steer a terminal."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from django.conf import settings
from django.core.management.base import CommandError, OutputWrapper
from django.db import DatabaseError
from rich.console import Console

from historyapp.core.errors import Invalid, PlayheadError
from historyapp.core.text import clean
from historyapp.management.exit_codes import WRONG_USAGE
from historyapp.models import Project
from historyapp.services.bootstrap import default_project

ACTOR = "command line"
"""Who did it, in the audit records."""

_PIPE_WIDTH = 160


def add_common_arguments(
    parser: argparse.ArgumentParser, *, project: bool = True, again: bool = False
) -> None:
    """``--project``, and ``--home``, which ``historyapp.__main__`` takes out before a command sees it.

    ``again``: the parser belongs to an action of a command that takes both already. What was said before the
    action then stays.
    """
    default = argparse.SUPPRESS if again else None
    parser.add_argument(
        "--home", metavar="DIR", default=default, help="data folder (default: PLAYHEAD_HOME, else .playhead)"
    )
    if project:
        parser.add_argument(
            "--project", metavar="NAME", default=default, help="the project (default: the oldest one)"
        )


def chosen_project(name: str | None) -> Project:
    """The project that ``--project`` names, else the oldest.

    Raises:
        CommandError: when there is none of that name, or several.
    """
    if name is None:
        return default_project()
    found = list(Project.objects.filter(name=clean(name))[:2])
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"Several projects are called {name!r}. Rename one of them first.")
    names = ", ".join(Project.objects.order_by("created_at").values_list("name", flat=True)[:20])
    raise CommandError(f"There is no project {name!r}. There is: {names or 'none yet'}.")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns what may be expected to go wrong into one sentence and an exit code.

    The code is 2 for what can never work (the API answers it with 422), else 1.
    """
    try:
        yield
    except Invalid as error:
        raise CommandError(error.detail, returncode=WRONG_USAGE) from error
    except PlayheadError as error:
        raise CommandError(error.detail) from error
    except DatabaseError as error:
        reason, *_ = str(error).strip().split("\n")
        raise CommandError(
            f"There is no Playhead data in {settings.PLAYHEAD_HOME} ({reason}). Go to the folder in which it "
            "was started, or name its data folder with --home."
        ) from error


def console_on(out: OutputWrapper) -> Console:
    """A rich console that writes where the command writes. What it prints is never read as markup."""
    out.ending = ""
    width = None if out.isatty() else _PIPE_WIDTH
    return Console(file=cast(IO[str], out), width=width, markup=False, emoji=False, highlight=False)


def printable(text: str) -> str:
    """The text with control characters and lone surrogates escaped: file names and transcripts hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plural(count: int, noun: str) -> str:
    """``1 step``, ``2,000 steps``, ``3 entries``."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun}"
