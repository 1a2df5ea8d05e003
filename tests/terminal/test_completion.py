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
playhead() {{ {python} -m historyapp "$@"; }}
source <(playhead completion bash)
COMP_LINE="{line}" COMP_POINT={length} COMP_TYPE=9 COMP_WORDS=({line})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_python_argcomplete playhead
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def in_bash(line: str, home: Path) -> list[str]:
    """What bash offers after a person has typed a line and pressed Tab."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("There is no bash.")
    script = BASH.format(python=sys.executable, line=line, length=len(line))
    environment = os.environ | {"PLAYHEAD_HOME": str(home), "PLAYHEAD_URL": ""}
    printed = subprocess.check_output([bash, "-c", script], cwd=ROOT, env=environment, text=True)
    return printed.split()


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    assert set(in_bash("playhead se", tmp_path)) == {"search", "sessions"}
    assert in_bash("playhead compare --a", tmp_path) == ["--all"]
    assert in_bash("playhead show 4", tmp_path) == [], "no data is no error"


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
