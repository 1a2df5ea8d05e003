"""``playhead`` alone lists its commands, without Django's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands

from historyapp.__main__ import SESSION_COMMANDS, main
from historyapp.terminal.command_line import make_parser
from tests.examples import thorough


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", ["playhead", *arguments])
    main()
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",), ("-h",)])
def test_help_lists_every_command_of_playhead_and_none_of_django(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    lines = printed(capsys, monkeypatch, *arguments).splitlines()
    named = [line.split()[1] for line in lines if line.startswith("  playhead ")]
    own = {name.replace("_", "-") for name, app in get_commands().items() if app == "historyapp"}
    assert set(named) == own | set(SESSION_COMMANDS) | {"COMMAND", "help", "--home", "--version"}
    assert max(map(len, lines)) < 100
    (commands,) = (action for action in make_parser()._actions if action.dest == "command")
    assert list(commands.choices or ()) == list(SESSION_COMMANDS)


def test_the_help_of_every_django_command_can_be_requested(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"migrate", "shell", "import"} <= set(printed(capsys, monkeypatch, "help", "--commands").split())


def test_a_command_is_explained_by_the_name_that_people_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = printed(capsys, monkeypatch, "help", "sign-in")
    assert explained.startswith("usage: playhead sign-in ")
    assert "--address" in explained


def test_a_command_that_looks_at_sessions_is_explained_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as end:
        printed(capsys, monkeypatch, "help", "show")
    assert end.value.code == 0
    assert "--steps A-B" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "x"),
        ("keys", "list"),
        thorough(("export", "last")),
        thorough(("import", ".")),
        ("import", "--help"),
        ("import", "--dry-run", "."),
    ],
)
def test_a_command_without_data_creates_nothing_and_says_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    names = ("PLAYHEAD_HOME", "PLAYHEAD_URL", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "historyapp", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert list(tmp_path.iterdir()) == []
    if "--help" in arguments:
        assert "Import transcripts of Claude Code" in done.stdout
    elif "--dry-run" in arguments:
        assert "There are no transcripts in ." in done.stderr
    else:
        assert done.returncode == 1
        assert f"There is no Playhead data in {tmp_path}/.playhead. Run the command in" in done.stderr
        assert "`playhead up` starts Playhead with a new data folder." in done.stderr
