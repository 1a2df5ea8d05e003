"""The exit code of a program, in the forms in which runners write it."""

import pytest

from historyapp.core.exit_codes import exit_code_in, runner_exit_code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Exit code: 3", 3),
        ("Exit code 1", 1),
        ("Process exited with code 0", 0),
        ("[Command finished with exit code 2]", 2),
        ("<shellId: 51 completed with exit code 128>", 128),
        ("<returncode>-9</returncode>", -9),
        ("the exit code is checked", None),
        ("", None),
    ],
)
def test_the_exit_code_is_read_from_a_line_of_the_runner(line: str, code: int | None) -> None:
    assert (exit_code_in(line), runner_exit_code(line)) == (code, code)


@pytest.mark.parametrize(
    ("line", "code"),
    [("PROCESS-DONE:1", 1), ('{"exit_code": 101, "output": ""}', 101), ("make: exit status 2", 2)],
)
def test_the_exit_code_is_read_from_other_lines_too(line: str, code: int) -> None:
    assert exit_code_in(line) == code
    assert runner_exit_code(line) is None
