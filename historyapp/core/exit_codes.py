"""Finds the exit code of a program in its output, in the notations of agents' tools."""

import re

FIELDS = ("exit_code", "return_code", "returncode", "exitCode")
"""The fields of an object that hold the code."""
_CODE = re.compile(
    r"(?:^exit code:? {0,3}|exited with code |with exit code |exit status |^<returncode> {0,3}|"
    r'exit code: {1,3}|"exit_?code": ?|"return_?code": ?|PROCESS-DONE:)(-?[0-9]{1,9})\b',
    re.IGNORECASE,
)
_MARKS = ("xit", "XIT", "code", "DONE:")
_RUNNER_CODE = re.compile(
    r"^(?:Process exited with code |Exit [Cc]ode:? {1,3}|<returncode> {0,3}|"
    r"\[[A-Za-z ]{1,40} with exit code |"
    r"<shellId: [0-9]{1,9} completed with exit code )(-?[0-9]{1,9})\b"
)


def exit_code_in(line: str) -> int | None:
    """The exit code in a line, or None."""
    match = _CODE.search(line) if any(mark in line for mark in _MARKS) else None
    return int(match[1]) if match else None


def runner_exit_code(line: str) -> int | None:
    """The exit code in a line that only a runner writes; None for any other line."""
    match = _RUNNER_CODE.match(line)
    return int(match[1]) if match else None
