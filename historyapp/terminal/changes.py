"""``playhead rewind``, ``fork`` and ``export``."""

import os
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from historyapp.terminal.errors import CommandFailed
from historyapp.terminal.output import Output, note
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import Server, api_path
from historyapp.terminal.sessions import find_session


def rewind(server: Server, output: Output, options: Namespace) -> None:
    session = find_session(server, options.session)
    step = options.to_step if options.to_step >= 0 else max(0, session["steps"] + 1 + options.to_step)
    target = f"step {step}" if step else "its beginning"
    title = safe_line(session["title"]) or session["id"]
    confirm(f"Rewind {title!r} ({session['steps']:,} steps) to {target}?", options.yes)
    body = {"to_step": options.to_step, "reason": options.reason, "expected_position": session["head"]}
    response = server.post(api_path("sessions", session["id"], "rewinds"), body)
    if options.json:
        output.json(response)
        return
    steps_cut = response["steps_cut"]
    hint = " They stay readable as a take." if steps_cut else ""
    output.line(f"Rewound to {target}. Steps cut off: {steps_cut:,}.{hint}")


def fork(server: Server, output: Output, options: Namespace) -> None:
    session = find_session(server, options.session)
    body = {"at_step": options.at_step, "title": options.title}
    created = server.post(api_path("sessions", session["id"], "forks"), body)
    output.json(created) if options.json else output.line(created["id"])


def export(server: Server, output: Output, options: Namespace) -> None:
    if options.out is None and output.is_terminal:
        raise CommandFailed(
            "Text from agents can contain terminal control sequences. Add --out FILE, or use a pipe."
        )
    if options.out is not None and options.out.exists():
        confirm(f"Replace {options.out}?", options.yes)
    session = find_session(server, options.session)
    path = api_path("sessions", session["id"], "export")
    choices = {"inputs": "false"} if options.without_inputs else {}
    with server.download(path, format=options.format, **choices) as chunks:
        if options.out is None:
            for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            return
        draft = _create_draft(options.out)
        try:
            with draft.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            draft.replace(options.out)
        except OSError as error:
            raise CommandFailed(f"{options.out} cannot be written: {error.strerror}.") from error
        finally:
            draft.unlink(missing_ok=True)
    note(f"Written: {options.out}")


def _create_draft(path: Path) -> Path:
    """Creates an empty file next to ``path``. It replaces ``path`` only when it is complete."""
    try:
        descriptor, draft = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from error
    os.close(descriptor)
    return Path(draft)


def confirm(question: str, yes: bool) -> None:
    """Asks the user for confirmation, unless ``yes`` is set.

    Raises:
        CommandFailed: when the user does not type yes, or standard input is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{question} Standard input is not a terminal. Add --yes to confirm.")
    print(f"{question} Type yes: ", end="", file=sys.stderr, flush=True)  # noqa: T201
    if sys.stdin.readline().strip().lower() != "yes":
        raise CommandFailed("Nothing was changed.")
