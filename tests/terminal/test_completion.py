"""Completion of commands, options and sessions in a shell."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest

from historyapp.__main__ import SESSION_COMMANDS
from historyapp.terminal.command_line import MANAGEMENT_COMMANDS, SHELLS, make_parser
from historyapp.terminal.completion import complete
from historyapp.terminal.server import Server
from tests.terminal.conftest import Playhead

ROOT = Path(__file__).parents[2]
BASH = """
playhead() { PYTHON -m historyapp "$@"; }
source <(playhead completion bash)
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_WORDS=($COMP_LINE)
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _python_argcomplete playhead
    echo "${COMPREPLY[@]}"
done
"""


def in_bash(home: Path, *lines: str) -> list[list[str]]:
    """What bash offers each time that a person has typed a line and pressed Tab."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("There is no bash.")
    command = [bash, "-c", BASH.replace("PYTHON", sys.executable), bash, *lines]
    environment = os.environ | {"PLAYHEAD_HOME": str(home), "PLAYHEAD_URL": ""}
    printed = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    return [line.split() for line in printed.splitlines()]


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    lines = "playhead se", "playhead compare --a", "playhead show 4"
    commands, options, sessions = in_bash(tmp_path, *lines)
    assert set(commands) == {"search", "sessions"}
    assert options == ["--all"]
    assert sessions == [], "no data is no error"


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(playhead: Playhead, shell: str) -> None:
    printed = playhead("completion", shell)
    assert printed.code == 0
    assert "playhead" in printed.out
    assert printed.err == ""


def test_another_shell_is_refused(playhead: Playhead) -> None:
    assert playhead("completion", "cmd").code == 2


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Server, str], Mapping[str, str]]:
    """The sessions that are offered after a prefix."""
    monkeypatch.setattr("historyapp.terminal.completion.argcomplete.autocomplete", lambda parser: None)

    def offered(server: Server, prefix: str) -> Mapping[str, str]:
        parser = make_parser()
        complete(parser, lambda options: server)
        (commands,) = [action for action in parser._actions if action.dest == "command"]
        assert isinstance(commands.choices, Mapping)
        (argument,) = [action for action in commands.choices["fork"]._actions if action.dest == "session"]
        completions: Mapping[str, str] = argument.completer(prefix=prefix, parsed_args=Namespace())
        return completions

    return offered


def test_sessions_are_offered_with_their_titles(
    offered: Callable[[Server, str], Mapping[str, str]],
) -> None:
    request_urls: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        request_urls.append(request.url)
        return httpx.Response(200, json={"items": [{"id": "4f0c", "title": "\x1b[2JFix it\n"}], "next": None})

    server = Server("http://playhead.example", "ph_x", httpx.MockTransport(answer))
    assert offered(server, "4f") == {"4f0c": "\ufffd[2JFix it"}
    assert request_urls[0].params["id"] == "4f"


def test_a_server_that_fails_offers_none(offered: Callable[[Server, str], Mapping[str, str]]) -> None:
    server = Server("http://playhead.example", "ph_x", httpx.MockTransport(lambda _: httpx.Response(500)))
    assert offered(server, "") == {}


def test_every_command_is_completed() -> None:
    (commands,) = [action for action in make_parser(MANAGEMENT_COMMANDS)._actions if action.dest == "command"]
    assert set(commands.choices or ()) == {*SESSION_COMMANDS, *MANAGEMENT_COMMANDS}
