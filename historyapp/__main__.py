"""The command line: Django's management commands under the name ``playhead``."""

import argparse
import os
import sys
from importlib.metadata import version


def main() -> None:
    """Run one management command; a wrong configuration ends it with one sentence instead of a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
    if sys.argv[1:] in (["--version"], ["version"]):
        sys.exit(print(f"Playhead {version('playhead')}"))  # noqa: T201 what was asked for
    os.umask(0o077)  # what is written into the data folder is nobody else's business
    _take_home(sys.argv[1:])

    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        settings.INSTALLED_APPS  # noqa: B018  (loads the settings, which read the environment)
        execute_from_command_line(_with_command_name(sys.argv))
    except ImproperlyConfigured as error:
        sys.exit(f"playhead: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _take_home(arguments: list[str]) -> None:
    """Let ``--home`` win over ``PLAYHEAD_HOME``: settings read it before any command parses its options."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--home")
    known, _ = parser.parse_known_args(arguments)
    if known.home:
        os.environ["PLAYHEAD_HOME"] = known.home


def _with_command_name(argv: list[str]) -> list[str]:
    """``sign-in`` means the command ``sign_in``: Django names commands after modules."""
    program, *arguments = argv
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = arguments[0].replace("-", "_")
    return [program, *arguments]


if __name__ == "__main__":
    main()
