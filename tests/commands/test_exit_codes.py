"""The exit codes that docs/commands.md lists, and ``--home`` in every place."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from django.core.management import CommandError
from django.db import connections

from historyapp.__main__ import main, split_home
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.management import exit_codes
from historyapp.management.command_line import plain_errors
from tests.examples import thorough
from tests.installation import copy_migrated

ROOT = Path(__file__).parents[2]
NO_SESSION = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c01"


def playhead(*arguments: str, **variables: str) -> "CompletedProcess[str]":
    names = {"PLAYHEAD_HOME", "DATABASE_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in names} | variables
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def name_of(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data folder with its tables."""
    return str(copy_migrated(tmp_path_factory.mktemp("codes") / "home"))


def test_every_exit_code_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    listed = re.findall(r"^\| `(\d+)` \|", text, flags=re.MULTILINE)
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    assert [int(code) for code in listed] == sorted(codes)


ENDS = pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["--help"]),
        (0, ["--version"]),
        (0, ["help", "keys"]),
        (0, ["keys", "list"]),
        (0, ["rebuild-projections", "--check"]),
        (1, ["keys", "revoke", "ph_nobody"]),
        (1, ["keys", "list", "--project", "nobody"]),
        (1, ["compress", NO_SESSION]),
        (1, ["rebuild-projections", NO_SESSION]),
        (1, ["sign-in", "--user", "nobody"]),
        (2, ["keys", "create", "x", "--scopes", "root"]),
        (2, ["keys"]),
        (2, ["compress", "not-an-id"]),
        (2, ["sign-in", "--address", "nonsense"]),
        (2, ["keys", "list", "--colour"]),
        (2, ["purge", "--archived-before", "soon"]),
        (2, ["up", "--port", "70000"]),
        (0, ["help", "show"]),
        (2, ["show"]),
        (3, ["sessions", "--url", "http://127.0.0.1:9", "--key", "ph_x"]),
        (2, ["nonsense"]),
        (2, ["help", "nonsense"]),
    ],
    ids=name_of,
)


@ENDS
def test_a_command_ends_with_the_documented_code(
    code: int,
    arguments: list[str],
    db: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["playhead", *arguments])
    monkeypatch.setattr(connections, "close_all", lambda: None)  # the test's own connection stays
    ended = exit_codes.DONE
    try:
        main()
    except SystemExit as end:
        ended = int(end.code or exit_codes.DONE)
    assert ended == code
    assert (capsys.readouterr().err == "") == (code == exit_codes.DONE)


@pytest.mark.slow
@pytest.mark.thorough
@ENDS
def test_a_process_ends_with_the_documented_code(home: str, code: int, arguments: list[str]) -> None:
    done = playhead(*arguments, PLAYHEAD_HOME=home)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stderr == "") == (code == exit_codes.DONE)


@pytest.mark.slow
def test_a_process_ends_with_a_sentence_instead_of_a_traceback(home: str) -> None:
    done = playhead("compress", "--home", home, NO_SESSION, PLAYHEAD_HOME="/nonsense")
    assert done.returncode == exit_codes.FAILED
    assert done.stderr.startswith("CommandError: There is no session")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_invalid_variable_and_a_folder_without_data_are_failures(tmp_path: Path, home: str) -> None:
    empty = str(tmp_path / "empty")
    assert playhead("keys", "list", PLAYHEAD_HOME=empty).returncode == exit_codes.FAILED
    wrong = playhead("keys", "list", PLAYHEAD_HOME=home, DEBUG="perhaps")
    assert (wrong.returncode, wrong.stdout) == (exit_codes.FAILED, "")
    assert wrong.stderr == "playhead: DEBUG must be true or false, not 'perhaps'.\n"


@pytest.mark.slow
def test_a_closed_pipe_causes_no_traceback(home: str) -> None:
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    program = f"{sys.executable} {ROOT / 'manage.py'} --home {home}"
    shell = f"set -o pipefail; {program} help --commands | true; echo $?"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        thorough(["keys", "--home", "HOME", "create", "x"]),
        thorough(["--home", "HOME", "keys", "create", "x"]),
        thorough(["keys", "create", "--home", "HOME", "x"]),
        thorough(["keys", "create", "x", "--home=HOME"]),
        thorough(["keys", "--project", "Default", "create", "x", "--home=HOME"]),
    ],
    ids=name_of,
)
def test_the_data_folder_can_be_anywhere_in_the_arguments(home: str, arguments: list[str]) -> None:
    done = playhead(*(argument.replace("HOME", home) for argument in arguments), PLAYHEAD_HOME="/nonsense")
    assert done.returncode == exit_codes.DONE, done.stderr
    assert done.stdout.startswith("ph_")


def test_only_the_data_folder_is_removed_from_the_arguments() -> None:
    assert split_home(["a", "--home", "b", "c", "-d"]) == ("b", ["a", "c", "-d"])
    assert split_home(["--home=x", "a", "--home", "b"]) == ("b", ["a"])
    assert split_home(["a", "--", "--home", "b"]) == (None, ["a", "--", "--home", "b"])
    assert split_home(["a", "--homely", "b"]) == (None, ["a", "--homely", "b"])


@pytest.mark.parametrize("arguments", [["--home"], ["--home="], ["keys", "--home", "--project", "x"]])
def test_an_option_without_its_folder_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        split_home(arguments)
    assert end.value.code == exit_codes.WRONG_USAGE
    assert capsys.readouterr().err.startswith("playhead: --home needs a folder")


@pytest.mark.parametrize(
    ("error", "code"), [(NotFound("x"), 1), (Conflict("x"), 1), (Invalid("x"), 2)], ids=name_of
)
def test_an_invalid_request_is_wrong_usage_and_other_errors_are_failures(error: Exception, code: int) -> None:
    with pytest.raises(CommandError) as raised, plain_errors():
        raise error
    assert raised.value.returncode == code
