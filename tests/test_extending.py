"""The worked examples of docs/extending.md: each is added to a copy of the project, checked, and taken out.

A section of the page has a line that begins with ``Files:``, a block below the name of each file (the whole
of a new one, or ``diff`` blocks for one that is there), and at its end an ``sh`` block that checks it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from tests.installation import migrated

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "extending.md"
COPIED = (
    "historyapp", "dashboard", "templates", "static", "tests", "bench", "docs", "manage.py", "pyproject.toml",
)  # fmt: skip
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^`(?P<path>[\w./-]+)`\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_FILES = re.compile(r"^Files: (.+)$", re.MULTILINE)
_LIMIT = re.compile(r"^\| \[(.+?)\]\(#.+?\) \| (\d+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Edit:
    """A block: a new file, or a change of one that is there."""

    path: str
    before: str | None
    """What the file holds now; None: the file is new."""
    after: str


@dataclass(frozen=True)
class Example:
    """A section of the page."""

    title: str
    files: list[str]
    edits: list[Edit]
    checks: list[str]


def _replace(path: Path, before: str | None, after: str | None) -> None:
    text = path.read_text() if path.exists() else None
    if before is None:
        assert text is None, f"{path} is there already"
    elif after is None:
        assert text == before
        path.unlink()
        return
    else:
        assert text is not None, f"{path} is not there"
        assert text.count(before) == 1, f"{path} holds these lines {text.count(before)} times:\n{before}"
        after = text.replace(before, after)
    path.write_text(after or "")


def read(markdown: str) -> Iterator[Example]:
    """The page's worked examples."""
    parts = _SECTION.split(markdown)[1:]
    for title, section in zip(parts[::2], parts[1::2], strict=True):
        listed = _FILES.search(section)
        assert listed, f"{title} lists no files"
        edits, checks, path = list[Edit](), list[str](), ""
        for block in _BLOCK.finditer(section):
            path = block["path"] or path
            if block["language"] == "sh":
                checks += block["text"].splitlines()
            else:
                edits.append(_edit(path, block["language"], block["text"]))
        yield Example(title, re.findall(r"`(.+?)`", listed[1]), edits, checks)


def _edit(path: str, language: str, text: str) -> Edit:
    if language != "diff":
        return Edit(path, None, text)
    lines = text.splitlines(keepends=True)
    assert all(line[0] in " +-\n" for line in lines), f"a line of the diff of {path} has no mark"
    before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
    return Edit(path, before, "".join(line[1:] or "\n" for line in lines if line[0] != "-"))


def contents(folder: Path) -> dict[str, str]:
    """What each file of a folder holds, as a digest."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


def limits() -> dict[str, int]:
    """How many files each addition may change, from the page's table."""
    return {what.capitalize(): int(files) for what, files in _LIMIT.findall(PAGE.read_text())}


EXAMPLES = {example.title: example for example in read(PAGE.read_text())}
each = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project without its tools. Every test leaves it as it found it."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)  # with what is compiled: its sources keep their times
        else:
            shutil.copy2(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def before(copy: Path) -> Iterator[dict[str, str]]:
    """What the copy holds without an example, also after all tests. The tools add caches."""
    held = contents(copy)
    yield held
    assert held.items() <= contents(copy).items()


@contextmanager
def added(folder: Path, *examples: Example) -> Iterator[None]:
    """The folder with these examples in it."""
    with ExitStack() as undo:
        for edit in (edit for example in examples for edit in example.edits):
            _replace(folder / edit.path, edit.before, edit.after)
            undo.callback(_replace, folder / edit.path, edit.after, edit.before)
        yield


def run(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """A check of the page, in a copy of the project."""
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/python"
    names = ("PLAYHEAD_HOME", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith("PYTEST")
    }
    light = folder / "tests" / "light"
    path = os.pathsep.join(map(str, (folder, light / "tokens", light)))
    environment |= {"PYTHONPATH": path, "PLAYHEAD_SHARED": str(folder / "nothing")}
    environment["PLAYHEAD_MIGRATED"] = str(migrated())
    # Of characters and of constants in the sources: to collect them takes two seconds.
    environment["HYPOTHESIS_STORAGE_DIRECTORY"] = str(ROOT / ".hypothesis")
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_every_addition_of_the_table_has_an_example_and_every_example_a_limit() -> None:
    assert list(limits()) == list(EXAMPLES)


@each
def test_an_example_changes_the_files_that_it_lists_and_no_more_than_the_table_allows(
    example: Example, copy: Path, before: dict[str, str]
) -> None:
    with added(copy, example):
        after = contents(copy)
    touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert touched == set(example.files)
    assert len([path for path in touched if not path.startswith("docs/")]) <= limits()[example.title]


LONG_SESSIONS = "tests/models/test_streams.py"
"""Recording a long session takes a fifth of the time of all tests of all examples."""


def contract_tests(argument: str) -> str:
    """The tests in a folder that run for each member of a registry; they take a third of the time of all."""
    names = ("test_contract.py", f"test_{Path(argument).name}.py")
    return next((f"{argument}/{name}" for name in names if (ROOT / argument / name).exists()), argument)


@pytest.mark.slow
def test_all_examples_work_together(copy: Path) -> None:
    """In one process, with contract tests. `make test-all` tries each alone, with all tests that it names."""
    chosen, options = list[str](), ["--hypothesis-profile", "few"]
    for example in EXAMPLES.values():
        for command in example.checks:
            _, _, _, _, _, word, *arguments = map(contract_tests, shlex.split(command))
            arguments = [argument for argument in arguments if argument != LONG_SESSIONS]
            names = [Path(argument).name for argument in arguments if not argument.startswith("-")]
            chosen.append(f"({word} and ({' or '.join(names)}))")
            options += arguments
    with added(copy, *EXAMPLES.values()):
        done = run(
            copy, shlex.join([".venv/bin/python", "-m", "pytest", "-v", "-k", " or ".join(chosen), *options])
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for example in EXAMPLES.values():
        for command in example.checks:
            word = shlex.split(command)[5]
            # A contract test runs for what is in the registry; a docstring's example would run anyway.
            assert re.search(rf"^tests/\S+::\S*{word}\S* PASSED", done.stdout, re.MULTILINE), example.title


@pytest.mark.slow
@pytest.mark.thorough
@each
def test_an_example_works_once_it_is_added_and_not_before(example: Example, copy: Path) -> None:
    assert example.checks
    for command in example.checks:
        assert run(copy, command).returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    with added(copy, example):
        for command in example.checks:
            done = run(copy, command)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_the_examples_pass_the_linters_of_the_project(copy: Path) -> None:
    sources = {path for example in EXAMPLES.values() for path in example.files if path.endswith(".py")}
    with added(copy, *EXAMPLES.values()):
        for tool in (["check"], ["format", "--check"]):
            command = [sys.executable, "-m", "ruff", *tool, *sorted(sources)]
            done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr


def test_a_line_that_no_longer_exists_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    example = Example("x", ["a.py"], [_edit("a.py", "diff", " one\n-three\n+two\n")], [])
    with pytest.raises(AssertionError, match="holds these lines 0 times"), added(tmp_path, example):
        pass
