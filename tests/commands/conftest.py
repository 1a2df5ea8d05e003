"""Running a command: what it prints and how it exits."""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO

import pytest
from django.core.management import CommandError, call_command


@dataclass(frozen=True)
class Ran:
    out: str
    err: str
    error: str = ""
    """The error message; empty after success."""


Run = Callable[..., Ran]


@pytest.fixture
def run(db: None) -> Run:
    """Runs ``playhead NAME ARGUMENTS…``."""

    def run(name: str, *arguments: object) -> Ran:
        out, err = StringIO(), StringIO()
        try:
            call_command(name, *map(str, arguments), stdout=out, stderr=err)
        except CommandError as error:
            return Ran(out.getvalue(), err.getvalue(), str(error))
        return Ran(out.getvalue(), err.getvalue())

    return run
