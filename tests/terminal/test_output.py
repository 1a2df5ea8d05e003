"""Tables and colours, on a real pseudo-terminal and without one."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from historyapp.terminal.output import dollars_text, duration_text

ROOT = Path(__file__).parents[2]
SCRIPT = """
from historyapp.terminal.output import Column, Output
output = Output()
output.line("status: ", ("error", "red"))
output.line("\\x1b]0;t\\x07", ("\\x1b[2J", "dim"))
columns = (Column("Step", number=True), Column("Title", flexible=True), Column("Status"))
output.table(columns, [["1", "修复解析器", "success"], ["12", "x" * 300 + "\\x1b]0;t\\x07", "error"]])
"""


def environment(**variables: str) -> dict[str, str]:
    unset = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TERM"}
    return {name: value for name, value in os.environ.items() if name not in unset} | {
        "TERM": "xterm-256color", "COLUMNS": "60", **variables
    }  # fmt: skip


def on_a_terminal(**variables: str) -> str:
    """What the script writes to a pseudo-terminal of 60 columns."""
    reader, writer = pty.openpty()
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdout=writer, env=environment(**variables), cwd=ROOT) as process:
        os.close(writer)
        printed = b""
        while chunk := _read(reader):
            printed += chunk
    os.close(reader)
    assert process.returncode == 0
    return printed.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # Linux raises it when the other end is closed
        return b""


def test_a_terminal_gets_colours_and_a_table_of_its_width() -> None:
    printed = on_a_terminal()
    assert "status: \x1b[31merror\x1b[0m\n" in printed
    assert "\x1b[32msuccess" in printed
    assert "\x1b]" not in printed
    assert "\x1b[2J" not in printed
    assert "…" in printed


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_whose_user_wants_no_colours_gets_none(variable: dict[str, str]) -> None:
    lines = on_a_terminal(**variable).splitlines()
    assert lines[0] == "status: error"
    assert "\x1b[3" not in "".join(lines)


def test_a_pipe_gets_only_text_even_in_a_poor_locale() -> None:
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command,
        env=environment(FORCE_COLOR="1", PYTHONIOENCODING="ascii"),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    printed = done.stdout.decode("ascii")
    assert "\x1b" not in printed
    assert printed.splitlines()[0] == "status: error"


def test_wide_characters_take_two_columns() -> None:
    printed = on_a_terminal(NO_COLOR="1", TERM="dumb")
    head, first, second = printed.splitlines()[-3:]
    assert first.index("success") + 5 == second.index("error") == head.index("Status")


def test_durations_and_money_read_as_on_the_pages() -> None:
    assert duration_text("2026-01-05T09:30:00Z", "2026-01-05T09:33:20Z") == "3 min 20 s"
    assert duration_text(None, "2026-01-05T09:33:20Z") == ""
    assert [dollars_text(dollars) for dollars in (0, 0.0015, 1234.5)] == ["$0.00", "$0.0015", "$1,234.50"]
