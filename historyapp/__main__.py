"""The command line: Django's management commands under the name ``playhead``."""

import argparse
import os
import sys
from importlib.metadata import version

HELP = """\
Playhead: record, browse and replay what AI agents do.

  playhead up                      set everything up and serve until Ctrl-C
  playhead import [PATH ...]       import transcripts of Claude Code, Codex and other agents
  playhead compress SESSION        summarise a session's older steps
  playhead worker                  carry out compressions beside the server, or on another machine
  playhead keys ACTION             list, create or revoke the API keys by which agents get in
  playhead sign-in                 print a link that signs you in to the dashboard
  playhead rebuild-projections     make counters and step rows again from the log
  playhead purge                   delete sessions for ever that were archived long ago

  playhead COMMAND --help          all that a command takes; --home DIR names the data folder
  playhead help --commands         every command, Django's own included (migrate, check, shell ...)
  playhead --version
"""


def main() -> None:
    """Run one management command; a wrong configuration ends it with one sentence instead of a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
    if sys.argv[1:] in (["--version"], ["version"]):
        sys.exit(print(f"Playhead {version('playhead')}"))  # noqa: T201 what was asked for
    if sys.argv[1:] in ([], ["help"], ["--help"], ["-h"]):
        print(HELP, end="")  # noqa: T201 what was asked for
        return
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
    place = 1 if arguments[:1] == ["help"] else 0
    if len(arguments) > place and not arguments[place].startswith("-"):
        arguments[place] = arguments[place].replace("-", "_")
    return [program, *arguments]


if __name__ == "__main__":
    main()
