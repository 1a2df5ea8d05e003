"""The forms in which harnesses report what a shell returned."""

import pytest

from historyapp.core import shell_output as module
from historyapp.core.shell_output import ShellOutput, output_of, shell_output
from historyapp.core.text import MAX_READ


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just output", ShellOutput("just output")),
        ("Output: On branch main\nclean", ShellOutput("Output: On branch main\nclean")),
        ("Command: ls\nDirectory: (root)\nOutput: a\nb", ShellOutput("a\nb")),
        ("<returncode>3</returncode>\n<output>\nbad\n</output>", ShellOutput("bad", 3)),
        ("Exit code 1\nFAIL", ShellOutput("FAIL", 1)),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\na\n", ShellOutput("a\n", 0, 0.1)),
        (
            "Chunk ID: 7\nWall time: 2.5 seconds\nProcess exited with code 4\nOriginal token count: 9\n"
            "Output:\nx",
            ShellOutput("x", 4, 2.5),
        ),
        (
            '{"output": "a", "metadata": {"exit_code": 2, "duration_seconds": 0.5}}',
            ShellOutput("a", 2, 0.5),
        ),
        ('{"exit_code": 0, "output": "a"}', ShellOutput("a", 0)),
        ('{"name": "a"}', ShellOutput('{"name": "a"}')),
        ('{"broken', ShellOutput('{"broken')),
        (
            "a\n[The command completed with exit code 5.]",
            ShellOutput("a\n[The command completed with exit code 5.]", 5),
        ),
        ("it failed with exit code 7, they said", ShellOutput("it failed with exit code 7, they said")),
        ("", ShellOutput("")),
    ],
)
def test_output_and_exit_code_are_read_separately(text: str, expected: ShellOutput) -> None:
    assert shell_output(text) == expected


def test_an_object_without_an_exit_code_is_not_the_report_of_a_shell() -> None:
    assert output_of({"stdout": "a", "stderr": "b", "return_code": 1}) == ShellOutput("a\nb", 1)
    assert output_of({"stdout": "a"}) is None
    assert output_of({"exit_code": 1}) is None


def test_a_long_report_in_json_is_not_read() -> None:
    """An append waits for it under the write lock: for 30 MB of lists, 2 s."""
    report = '{"output":"%s","metadata":{"exit_code":2}}'
    assert shell_output(report % "a").exit_code == 2
    assert shell_output(report % ("a" * MAX_READ)).exit_code is None


def test_the_exit_code_is_looked_for_in_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines of a head of 20 MB took 13 s under the write lock."""
    lines = list[str]()
    monkeypatch.setattr(module, "exit_code_in", lines.append)
    for head in ("<returncode>", "Command: ", "[a]", "Exit code "):
        assert shell_output(head + "ab\n" * 10_000).exit_code is None
        shell_output(head + "a" * 1_000_000)
    assert len(lines) < 100
    assert max(map(len, lines)) <= 10_000
