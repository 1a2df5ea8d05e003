"""The commands for sessions: their options, and the server that they use."""

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
from historyapp.terminal.sessions import SORTS, list_sessions
from historyapp.terminal.show import show, step_range
from historyapp.terminal.tail import tail

Command = Callable[[Server, Output, Namespace], int | None]
FORMATS = ("playhead_jsonl", "openai_messages", "anthropic_messages", "markdown", "html")
"""As in :data:`historyapp.core.exporters.EXPORTERS`, which takes half a second to load."""
SHELLS = ("bash", "zsh", "fish")
OTHERS = (
    "up", "import", "compress", "worker", "keys", "caps", "sign-in", "rebuild-projections", "purge", "help",
)  # fmt: skip
"""Playhead's management commands, which a shell completes by name."""
SERVER_OPTIONS = (
    ("--home", "DIR", "read this data folder (default: PLAYHEAD_HOME)"),
    ("--project", "NAME", "a project in the data folder (default: the oldest one)"),
    ("--url", "URL", "use the server at this address (default: PLAYHEAD_URL)"),
    ("--key", "KEY", "the server's API key (default: PLAYHEAD_API_KEY)"),
)
SESSION = "a session: its id, the first characters of its id, or `last`"


def run(arguments: Sequence[str], home: str | None) -> int:
    """Carries out a command and returns its exit code.

    Args:
        arguments: the command's name and what follows it.
        home: the data folder that ``--home`` names, if any.
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
    """Prints completions for a shell, and ends the process."""
    from historyapp.terminal import completion

    completion.complete(make_parser(OTHERS), lambda options: _server(options, options.home))


def make_parser(further: Sequence[str] = ()) -> ArgumentParser:
    """The parser of all commands of this package.

    Args:
        further: names of further commands, without their options.
    """
    parser = ArgumentParser(prog="playhead", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, help: str, command: Command, *, json: bool = True) -> ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(run=command, parser=made)
        if json:
            made.add_argument("--json", action="store_true", help="print the API's JSON")
        server = made.add_argument_group("data folder or server")
        for option, metavar, meaning in SERVER_OPTIONS:
            server.add_argument(option, metavar=metavar, help=meaning)
        return made

    _add_sessions(add)
    _add_reading(add)
    _add_evaluate(add)
    _add_changing(add)
    made = commands.add_parser("completion", help="Print a completion script for a shell.")
    made.add_argument("shell", choices=SHELLS)
    made.set_defaults(parser=made)
    for name in further:
        commands.add_parser(name)
    return parser


def _add_sessions(add: Callable[..., ArgumentParser]) -> None:
    made = add("sessions", "List sessions, by default the newest first.", list_sessions)
    made.add_argument("words", nargs="*", metavar="WORD", help="words in the title, agent or tags")
    made.add_argument("--tag", action="append", metavar="TAG", help="only sessions with this tag; repeatable")
    statuses = ("live", "finished", "archived", "all")
    made.add_argument("--status", choices=statuses, help="default: all but archived ones")
    for name in ("agent", "model", "repository", "folder"):
        meaning = f"only sessions with this {name}; repeatable"
        made.add_argument(f"--{name}", action="append", metavar="NAME", help=meaning)
    made.add_argument("--errors", action="store_true", help="only sessions with failed steps")
    made.add_argument(
        "--likely-failures", action="store_true", help="only sessions with steps that look like a failure"
    )
    made.add_argument("--from", dest="first", metavar="DAY", help="newest entry on this day or later (UTC)")
    made.add_argument("--to", dest="last", metavar="DAY", help="newest entry on this day or earlier (UTC)")
    made.add_argument("--undated", action="store_true", help="only sessions without times")
    made.add_argument(
        "--sort",
        choices=SORTS,
        default=SORTS[0],
        metavar="KEY",
        help=f"{', '.join(SORTS)}; the highest or newest first (default: %(default)s)",
    )
    made.add_argument("--reverse", action="store_true", help="the lowest or oldest first")
    made.add_argument(
        "--limit", type=_number(1, 100_000), default=20, metavar="N", help="at most N (default: %(default)s)"
    )


def _add_reading(add: Callable[..., ArgumentParser]) -> None:
    made = add("show", "Show a session, some of its steps, or one step in full.", show)
    made.add_argument("session", metavar="SESSION", help=SESSION)
    made.add_argument(
        "step", nargs="?", type=_number(-(10**9), 10**9), metavar="STEP", help="-1 is the newest"
    )
    made.add_argument("--steps", type=step_range, metavar="A-B", help="these steps: 3-7, 3-, -7 or 3")
    made.add_argument("--full", action="store_true", help="show the steps in full")

    made = add("search", "Search the steps of all sessions, the newest first.", search)
    made.add_argument(
        "words", nargs="+", metavar="QUERY", help='words, "phrases", prefix*, tool:bash, -word …'
    )
    made.add_argument(
        "--limit", type=_number(1, 10_000), default=20, metavar="N", help="at most N (default: %(default)s)"
    )
    made.add_argument("--cursor", metavar="CURSOR", help="continue after an earlier page")
    made = add("compare", "Compare two runs. The exit code is 1 if they differ.", compare)
    run_help = f"{SESSION}; SESSION@POSITION as it was; SESSION/takes/POSITION: a take"
    made.add_argument("a", metavar="A", help=run_help)
    made.add_argument("b", metavar="B", help="likewise")
    made.add_argument("--all", action="store_true", help="every pair of steps after the shared part")
    made = add("tail", "Show the newest entries of a session, or follow new entries.", tail)
    made.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"{SESSION}; with -f: default all sessions"
    )
    made.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="also print new entries as they are recorded, until Ctrl-C",
    )
    made.add_argument(
        "-n",
        "--lines",
        type=_number(0, 10_000),
        default=10,
        metavar="N",
        help="entries (default: %(default)s)",
    )


def _add_changing(add: Callable[..., ArgumentParser]) -> None:
    made = add("rewind", "Rewind a session: later steps leave its history and stay as a take.", rewind)
    made.add_argument("session", metavar="SESSION", help=SESSION)
    step = _number(-(10**9), 10**9)
    made.add_argument("--to-step", type=step, required=True, metavar="STEP", help="the last step that stays")
    made.add_argument("--reason", metavar="TEXT", help="a reason, stored with the rewind")
    made.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    made = add("fork", "Create a new session that begins with another session's steps.", fork)
    made.add_argument("session", metavar="SESSION", help=SESSION)
    made.add_argument(
        "--at-step", type=step, metavar="STEP", help="the last shared step (default: the newest)"
    )
    made.add_argument("--title", metavar="TEXT", help="of the new session")
    made = add("export", "Write a session to a file or a pipe.", export, json=False)
    made.add_argument("session", metavar="SESSION", help=SESSION)
    made.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s")
    made.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    made.add_argument("--yes", action="store_true", help="replace FILE without asking")


def _add_evaluate(add: Callable[..., ArgumentParser]) -> None:
    made = add("evaluate", "Measure which policy and budget fits an agent, on recorded sessions.", evaluate)
    made.add_argument("sessions", nargs="*", metavar="SESSION", help=SESSION)
    made.add_argument("--agent", metavar="NAME", help="the newest 20 sessions of this agent")
    made.add_argument(
        "--budgets", type=number_list, metavar="N,N", help="in tokens, at most four (default: 2000,8000)"
    )
    made.add_argument("--policies", metavar="NAME,NAME", help="default: all policies")
    made.add_argument(
        "--model", metavar="NAME", help="use this model's tokens and prices (default: each session's model)"
    )
    made.add_argument("--no-wait", dest="wait", action="store_false", help="only start it, for a worker")
    made.add_argument("--result", metavar="ID", help="show an evaluation that was started earlier")


def _server(options: Namespace, home: str | None) -> Server:
    """The remote server, if an address is given or set, otherwise the data folder.

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
