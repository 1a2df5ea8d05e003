"""The commands for sessions: their options, and the server to which they connect."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from historyapp.management.exit_codes import DONE
from historyapp.terminal.changes import export, fork, rewind
from historyapp.terminal.compare import compare
from historyapp.terminal.errors import CommandFailed, WrongUsage
from historyapp.terminal.evaluate import evaluate, number_list
from historyapp.terminal.output import Output, note
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.search import search
from historyapp.terminal.server import Server
from historyapp.terminal.sessions import SORT_NAMES, SORTS, list_sessions
from historyapp.terminal.show import show, step_range
from historyapp.terminal.tail import tail

Command = Callable[[Server, Output, Namespace], int | None]
FORMATS = ("playhead_jsonl", "openai_messages", "anthropic_messages", "claude_code", "markdown", "html")
"""As in :data:`historyapp.core.exporters.EXPORTERS`, which takes half a second to load."""
SHELLS = ("bash", "zsh", "fish")
MANAGEMENT_COMMANDS = (
    "up", "import", "compress", "worker", "keys", "caps", "sign-in", "rebuild-projections", "purge", "help",
)  # fmt: skip
"""Playhead's management commands, which a shell completes by name."""
SERVER_OPTIONS = (
    ("--home", "DIR", "use this data folder (default: PLAYHEAD_HOME, else .playhead)"),
    ("--project", "NAME", "a project in the data folder (default: the oldest)"),
    ("--url", "URL", "use the server at this address (default: PLAYHEAD_URL)"),
    ("--key", "KEY", "the server's API key (default: PLAYHEAD_API_KEY)"),
)
SESSION = "a session: its id, the first characters of its id, or `last`"


def run(arguments: Sequence[str], home: str | None) -> int:
    """Runs a command and returns its exit code.

    Args:
        arguments: the command's name and its arguments.
        home: the data folder of ``--home``, if the option was used.
    """
    options, unknown = make_parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unknown: {' '.join(map(safe_line, unknown))}")
    if options.command == "completion":
        from historyapp.terminal.completion import print_script

        print_script(options.shell)
        return DONE
    try:
        code: int | None = options.run(_server(options, home), Output(), options)
    except CommandFailed as error:
        note(f"playhead: {error}")
        return error.code
    return code or DONE


def complete() -> None:
    """Prints completions for a shell, and exits."""
    from historyapp.terminal import completion

    completion.complete(make_parser(MANAGEMENT_COMMANDS), lambda options: _server(options, options.home))


def make_parser(other_commands: Sequence[str] = ()) -> ArgumentParser:
    """The parser of all commands of this package.

    Args:
        other_commands: names of commands to add without options.
    """
    parser = ArgumentParser(prog="playhead", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, help: str, command: Command, *, json: bool = True) -> ArgumentParser:
        subparser = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        subparser.set_defaults(run=command, parser=subparser)
        if json:
            subparser.add_argument("--json", action="store_true", help="print the API's JSON")
        server = subparser.add_argument_group("data folder or server")
        for option, metavar, option_help in SERVER_OPTIONS:
            server.add_argument(option, metavar=metavar, help=option_help)
        return subparser

    _add_sessions(add)
    _add_reading(add)
    _add_evaluate(add)
    _add_changing(add)
    about = "Print a completion script for a shell."
    completion = commands.add_parser("completion", help=about, description=about)
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(parser=completion)
    for name in other_commands:
        commands.add_parser(name)
    return parser


def _add_sessions(add: Callable[..., ArgumentParser]) -> None:
    parser = add("sessions", "List sessions, newest first by default.", list_sessions)
    parser.add_argument("words", nargs="*", metavar="WORD", help="words in the title, agent or tags")
    parser.add_argument(
        "--tag", action="append", metavar="TAG", help="only sessions with this tag; repeatable"
    )
    statuses = ("live", "finished", "archived", "all")
    parser.add_argument(
        "--status", choices=statuses, help="only sessions with this status (default: all except archived)"
    )
    for name in ("agent", "model", "repository", "folder"):
        option_help = f"only sessions with this {name}; repeatable"
        parser.add_argument(f"--{name}", action="append", metavar="NAME", help=option_help)
    parser.add_argument("--errors", action="store_true", help="only sessions with failed steps")
    parser.add_argument(
        "--likely-failures", action="store_true", help="only sessions with steps that look like a failure"
    )
    parser.add_argument("--from", dest="first", metavar="DAY", help="newest entry on this day or later (UTC)")
    parser.add_argument("--to", dest="last", metavar="DAY", help="newest entry on this day or earlier (UTC)")
    parser.add_argument("--undated", action="store_true", help="only sessions without recorded times")
    parser.add_argument(
        "--sort",
        choices=(*SORTS, *SORT_NAMES),
        default=SORTS[0],
        metavar="KEY",
        help=f"{', '.join((*SORTS, *SORT_NAMES))}; highest or newest first (default: %(default)s)",
    )
    parser.add_argument("--reverse", action="store_true", help="lowest or oldest first")
    parser.add_argument(
        "--limit",
        type=_number(1, 100_000),
        default=20,
        metavar="N",
        help="show at most N sessions (default: %(default)s)",
    )


def _add_reading(add: Callable[..., ArgumentParser]) -> None:
    parser = add("show", "Show a session, some of its steps, or one step in full.", show)
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument(
        "step",
        nargs="?",
        type=_number(-(10**9), 10**9),
        metavar="STEP",
        help="the number of a step; -1 is the newest",
    )
    parser.add_argument("--steps", type=step_range, metavar="A-B", help="only these steps: 3-7, 3-, -7 or 3")
    parser.add_argument("--full", action="store_true", help="show the steps in full")

    parser = add("search", "Search the steps of all sessions, newest first.", search)
    parser.add_argument(
        "words", nargs="+", metavar="QUERY", help='words, "phrases", prefix*, tool:bash, -word …'
    )
    parser.add_argument(
        "--limit",
        type=_number(1, 10_000),
        default=20,
        metavar="N",
        help="show at most N steps (default: %(default)s)",
    )
    parser.add_argument(
        "--cursor", metavar="CURSOR", help="continue after an earlier page, which printed the cursor"
    )
    parser = add("compare", "Compare two runs. The exit code is 1 if they differ.", compare)
    run_help = (
        f"{SESSION}; SESSION@POSITION for the session as it was at a position; "
        "SESSION/takes/POSITION for a take"
    )
    parser.add_argument("a", metavar="A", help=run_help)
    parser.add_argument("b", metavar="B", help="the other run, in the same form as A")
    parser.add_argument("--all", action="store_true", help="show every pair of steps after the shared part")
    parser = add("tail", "Show the newest entries of a session, or follow new entries.", tail)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"{SESSION}; with -f or -n, all sessions by default"
    )
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="also print new entries as they are recorded, until Ctrl-C",
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=_number(0, 10_000),
        metavar="N",
        help="print the newest N entries first (default: 10 of a session, none of all sessions)",
    )


def _add_changing(add: Callable[..., ArgumentParser]) -> None:
    parser = add("rewind", "Rewind a session: later steps leave its history and stay as a take.", rewind)
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    step = _number(-(10**9), 10**9)
    parser.add_argument(
        "--to-step", type=step, required=True, metavar="STEP", help="the last step that stays"
    )
    parser.add_argument("--reason", metavar="TEXT", help="a reason, stored with the rewind")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser = add("fork", "Create a new session that begins with another session's steps.", fork)
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument(
        "--at-step", type=step, metavar="STEP", help="the last shared step (default: the newest)"
    )
    parser.add_argument("--title", metavar="TEXT", help="the title of the new session")
    parser = add("export", "Write a session to a file or a pipe.", export, json=False)
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="the format of the file (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="write to this file (default: standard output)"
    )
    parser.add_argument(
        "--without-inputs", action="store_true", help="leave out text that people wrote (format html)"
    )
    parser.add_argument("--yes", action="store_true", help="replace FILE without asking")


def _add_evaluate(add: Callable[..., ArgumentParser]) -> None:
    parser = add("evaluate", "Measure on recorded sessions which policy and budget fit an agent.", evaluate)
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help=SESSION)
    parser.add_argument("--agent", metavar="NAME", help="evaluate the newest 20 sessions of this agent")
    parser.add_argument(
        "--budgets", type=number_list, metavar="N,N", help="up to four budgets in tokens (default: 2000,8000)"
    )
    parser.add_argument("--policies", metavar="NAME,NAME", help="only these policies (default: all)")
    parser.add_argument(
        "--model", metavar="NAME", help="use this model's tokens and prices (default: each session's model)"
    )
    parser.add_argument(
        "--no-wait", dest="wait", action="store_false", help="only start the evaluation; a worker runs it"
    )
    parser.add_argument("--result", metavar="ID", help="show an evaluation that was started earlier")


def _server(options: Namespace, home: str | None) -> Server:
    """The remote server, if an option or a variable gives its address, otherwise the local data folder.

    Raises:
        WrongUsage: when the options contradict each other, or the key is missing.
    """
    if home and options.url:
        raise WrongUsage("Give --home or --url, not both.")
    if home or options.project:
        address = options.url
    else:
        address = options.url or os.environ.get("PLAYHEAD_URL", "").strip()
    if not address:
        if options.key:
            raise WrongUsage("--key needs the address of its server. Add --url URL, or set PLAYHEAD_URL.")
        from historyapp.terminal.local import local_server

        return local_server(options.project)
    if options.project:
        raise WrongUsage("A key belongs to one project. Leave out --project, or leave out --url.")
    key = options.key or os.environ.get("PLAYHEAD_API_KEY", "").strip()
    if not key:
        raise WrongUsage(f"{address} needs an API key. Add --key KEY, or set PLAYHEAD_API_KEY.")
    return Server(address, key)


def _number(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text) if len(text) < 20 else maximum + 1
        except ValueError:
            value = maximum + 1
        if not minimum <= value <= maximum:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {minimum} to {maximum}")
        return value

    return parse
