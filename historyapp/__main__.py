"""The command line ``playhead``: commands for sessions, and Django's management commands."""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import NoReturn

from historyapp.management.exit_codes import FAILED, INTERRUPTED, WRONG_USAGE

HELP = """\
Playhead: record, browse and replay what AI agents do.

  playhead up                      set everything up and serve until Ctrl-C
  playhead import [PATH ...]       import transcripts of Claude Code, Codex and other agents
  playhead compress SESSION        summarise a session's older steps

  playhead sessions [WORD ...]     list sessions
  playhead show SESSION [STEP]     show a session, its steps, or one step
  playhead search QUERY            search the steps of all sessions
  playhead compare A B             show how two runs differ
  playhead tail [SESSION] [-f]     show the newest entries, and follow what is recorded
  playhead evaluate SESSION...     measure which context policy and budget fit an agent
  playhead rewind SESSION          rewind a session to a step
  playhead fork SESSION            start a new session from another's steps
  playhead export SESSION          write a session to a file

  playhead worker                  run another worker, here or on another machine
  playhead keys ACTION             list, create or revoke API keys
  playhead caps ACTION             list or set spending caps
  playhead sign-in                 print a link that signs you in to the dashboard
  playhead rebuild-projections     rebuild counters and step rows from the log
  playhead purge                   delete sessions that were archived long ago
  playhead completion SHELL        print a completion script for bash, zsh or fish

  playhead COMMAND --help          the options of a command
  playhead --home DIR COMMAND      use this data folder (also after COMMAND)
  playhead help --commands         every command, including Django's (migrate, check, shell ...)
  playhead --version
"""
SESSION_COMMANDS = (
    "sessions", "show", "search", "compare", "tail", "evaluate", "rewind", "fork", "export", "completion",
)  # fmt: skip
"""The commands of ``historyapp.terminal``. They also work on a remote server, and then load no Django."""


DATA_COMMANDS = ("caps", "compress", "import", "keys", "purge", "rebuild-projections", "sign-in")
"""Commands of ``management/`` that need the data of an earlier start. ``up`` and ``worker`` create it."""


def main() -> None:
    """Runs one command. A wrong configuration prints one sentence instead of a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "historyapp.settings")
    if "_ARGCOMPLETE" in os.environ:
        from historyapp.terminal.command_line import complete

        complete()
    home, arguments = split_home(sys.argv[1:])
    if home is not None:
        os.environ["PLAYHEAD_HOME"] = home  # Django's settings read it before a command parses its options
    if arguments in (["--version"], ["version"]):
        from importlib.metadata import version

        print(f"Playhead {version('playhead')}")  # noqa: T201 the command's output
        return
    if arguments in ([], ["help"], ["--help"], ["-h"]):
        print(HELP, end="")  # noqa: T201 the command's output
        return
    os.umask(0o077)  # files in the data folder are private
    if arguments[0] == "help" and arguments[1:2] and arguments[1] in SESSION_COMMANDS:
        arguments = [arguments[1], "--help"]
    try:
        if arguments[0] in SESSION_COMMANDS:
            from historyapp.terminal.command_line import run

            sys.exit(run(arguments, home))
        _run_django(arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Buffered output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


def _run_django(arguments: Sequence[str]) -> None:
    """Runs a management command."""
    gc.disable()  # modules stay loaded, so the collector would only add a sixth to the start time

    import django
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    with _existing_or_temporary_folder(arguments):
        try:
            django.setup()
            gc.freeze()
            gc.enable()
            execute_from_command_line([sys.argv[0], *_with_command_name(arguments)])
        except ImproperlyConfigured as error:
            sys.exit(f"playhead: {error}")


@contextmanager
def _existing_or_temporary_folder(arguments: Sequence[str]) -> Iterator[None]:
    """If there is no data: a command that only prints gets an empty folder, so that it creates none in
    ``PLAYHEAD_HOME``, and a command that needs data exits.
    """
    from django.apps import apps

    from historyapp.data_folder import missing_data

    missing = "" if apps.ready else missing_data()  # in tests, other settings are loaded
    only_prints = arguments[0] == "help" or not {"-h", "--help", "--dry-run"}.isdisjoint(arguments)
    if not missing or not (only_prints or arguments[0].replace("_", "-") in DATA_COMMANDS):
        yield
    elif only_prints:
        home = os.environ.get("PLAYHEAD_HOME", "")
        with TemporaryDirectory() as folder:
            os.environ["PLAYHEAD_HOME"] = folder
            try:
                yield
            finally:
                os.environ["PLAYHEAD_HOME"] = home
    else:
        sys.exit(f"playhead: {missing}")


def split_home(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The folder that ``--home`` names, and the other arguments.

    After ``--`` there are no options. Exits if ``--home`` names no folder.
    """
    home, others, unread = None, list[str](), list(arguments)
    while unread:
        argument = unread.pop(0)
        if argument == "--":
            return home, [*others, argument, *unread]
        if argument == "--home":
            home = unread.pop(0) if unread and not unread[0].startswith("-") else ""
        elif argument.startswith("--home="):
            home = argument.removeprefix("--home=")
        else:
            others.append(argument)
            continue
        if not home:
            _exit_wrong_usage("--home needs a folder, for example `playhead --home DIR keys list`.")
    return home, others


def _with_command_name(arguments: Sequence[str]) -> list[str]:
    """Translates ``sign-in`` to ``sign_in``: Django names commands after modules.

    Exits if there is no such command.
    """
    from django.core.management import get_commands

    index = 1 if arguments[0] == "help" else 0
    if len(arguments) <= index or arguments[index] == "--commands":
        return list(arguments)
    name = arguments[index].replace("-", "_")
    if name not in get_commands():
        _exit_wrong_usage(f"There is no command {arguments[index]!r}. `playhead` alone lists the commands.")
    return [*arguments[:index], name, *arguments[index + 1 :]]


def _exit_wrong_usage(sentence: str) -> NoReturn:
    print(f"playhead: {sentence}", file=sys.stderr)  # noqa: T201 the last output of the program
    sys.exit(WRONG_USAGE)


if __name__ == "__main__":
    main()
