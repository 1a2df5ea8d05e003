"""Which programs a command line runs, whether they only show text, and what its exit code says."""

import time

import pytest

from historyapp.core.commands import exit_code_of, only_print, programs_of


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("cd /app && python -m pytest -x 2>&1 | tail -5", ("cd", "python", "tail")),
        ("FOO=1 sudo /usr/bin/make -j4; echo done", ("make", "echo")),
        ("git --no-pager -C /app log --oneline", ("git log",)),
        ("grep -n 'a|b; rm' x.py", ("grep",)),
        ('python -c "\nimport os\nos.getcwd()\n"', ("python",)),
        ("for f in a b; do cat $f; done", ("for", "cat", "done")),
        ("timeout 60 cargo test", ("cargo",)),
        ("", ()),
        ("  ", ()),
    ],
)
def test_the_programs_of_a_command_line_are_named_once_and_in_order(
    command: str, programs: tuple[str, ...]
) -> None:
    assert programs_of(command) == programs


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("cat a.log | grep -i error | head", True),
        ("git diff HEAD~1 -- a.py", True),
        ("git commit -m x", False),
        ("gh run view 1 --log", True),
        ("python a.py | grep Error", False),
        ("", False),
    ],
)
def test_programs_that_only_show_text_are_recognised(command: str, shows: bool) -> None:
    assert only_print(programs_of(command)) is shows


@pytest.mark.parametrize(
    ("command", "code_of"),
    [
        ("make test", "all"),
        ("cd a && make test 2>&1", "all"),
        ("make; ls", "last"),
        ("make\nls", "last"),
        ("make | tail; ls", "last"),
        ("make 2>&1 | tail -3", ""),
        ("make || true", ""),
        ("x" * 3000, ""),
    ],
)
def test_an_exit_code_covers_all_commands_the_last_one_or_none(command: str, code_of: str) -> None:
    assert exit_code_of(command) == code_of


@pytest.mark.parametrize("mark", ["'", '"', "'\"", "|", "&&", "\\'", ";(", "a "])
def test_long_command_lines_take_no_longer_than_short_ones(mark: str) -> None:
    started = time.thread_time()
    programs_of(mark * 500_000)
    exit_code_of(mark * 500_000)
    assert time.thread_time() - started < 0.2


def test_the_first_200_parts_of_a_command_line_are_read() -> None:
    """Reading a thousand takes a millisecond, and an append may have thousands of commands."""
    assert programs_of("a;" * 199 + "b;c") == ("a", "b")
