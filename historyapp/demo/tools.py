"""The tools of the demo's agent. They work in one temporary folder."""

import csv
import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

TEST_SECONDS = 20


class FailedTests(Exception):
    """``output`` is what the test run printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


class Toolbox:
    """Tools by name, for one folder. Paths are relative to it and cannot leave it.

    Args:
        answers: the user's answers to ``ask_user``, by the first words of the question.
    """

    def __init__(self, folder: Path, answers: Mapping[str, str] | None = None) -> None:
        self.folder = folder.resolve()
        self.answers = answers or {}
        self._tools: dict[str, Callable[..., str]] = {
            tool.__name__: tool
            for tool in (
                self.list_folder,
                self.read_file,
                self.write_file,
                self.edit_file,
                self.grep,
                self.run_tests,
                self.check_ledger,
                self.ask_user,
            )
        }

    def run(self, name: str, arguments: Mapping[str, str]) -> str:
        """The tool's output. The agent records whatever the tool raises."""
        return self._tools[name](**arguments)

    def fill(self, files: Mapping[str, bytes]) -> None:
        """Replaces the folder's content with these files."""
        for path in self._files():
            path.unlink()
        for name, content in files.items():
            path = self._path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def files(self) -> dict[str, bytes]:
        """The folder's content, for :meth:`fill`."""
        return {self._name(path): path.read_bytes() for path in self._files()}

    def list_folder(self, path: str = ".") -> str:
        """The files of a folder and its subfolders, with their sizes in bytes."""
        return "\n".join(f"{file.stat().st_size:>6} {self._name(file)}" for file in self._files(path))

    def read_file(self, path: str) -> str:
        file = self._path(path)
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            # Leave out the temporary folder, which the agent does not know.
            raise type(error)(error.errno, error.strerror, path) from error

    def write_file(self, path: str, content: str) -> str:
        file = self._path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        return f"Wrote {len(content.encode())} bytes to {path}."

    def edit_file(self, path: str, old_string: str, new_string: str) -> str:
        """Replaces ``old_string``, which must occur once, and returns the change as a diff."""
        before = self.read_file(path)
        count = before.count(old_string)
        if count != 1:
            raise ValueError(f"old_string occurs {count} times in {path}, but must occur once")
        after = before.replace(old_string, new_string)
        self.write_file(path, after)
        lines = (before.splitlines(), after.splitlines())
        return "\n".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}", lineterm=""))

    def grep(self, pattern: str, path: str = ".") -> str:
        """The matching lines, as ``file:line: text``."""
        matches = [
            f"{self._name(file)}:{number}: {line.strip()}"
            for file in self._files(path)
            for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), start=1)
            if re.search(pattern, line)
        ]
        return "\n".join(matches) or f"No line matches {pattern}."

    def run_tests(self) -> str:
        """Runs the project's unit tests in another process.

        Raises:
            FailedTests: when a test fails.
            subprocess.TimeoutExpired: after 20 seconds.
        """
        run = subprocess.run(
            [sys.executable, "-IBS", "-m", "unittest", "discover", "--top-level-directory", "."],
            cwd=self.folder,
            env={**os.environ, "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TEST_SECONDS,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        # Leave out the temporary folder's name and the duration, so that the output is always the same.
        output = run.stdout.replace(f"{self.folder}{os.sep}", "")
        output = re.sub(r"(Ran \d+ tests?) in [\d.]+s", r"\1", output).strip()
        if run.returncode:
            raise FailedTests(output.splitlines()[-1], output)
        return output

    def check_ledger(self, path: str) -> str:
        """Compares the sum of a ledger's rows with its closing balance.

        Raises:
            ValueError: when they differ, an amount is invalid, or a booking occurs twice.
        """
        amounts: dict[str, Decimal] = {}
        for line, row in enumerate(csv.DictReader(self.read_file(path).splitlines()), start=2):
            reference, amount = row["reference"], row["amount"]
            if reference in amounts:
                raise ValueError(f"line {line} books {reference} a second time")
            try:
                amounts[reference] = Decimal(amount)
            except InvalidOperation as error:
                raise ValueError(f"line {line} has {amount!r} for an amount") from error
        closing = amounts.pop("closing")
        total = sum(amounts.values())
        if total != closing:
            raise ValueError(f"it closes at {closing}, but its rows add up to {total}")
        return f"{len(amounts) - 1} bookings from {amounts['opening']} to {closing}: balanced."

    def ask_user(self, question: str) -> str:
        return next(answer for start, answer in self.answers.items() if question.startswith(start))

    def _path(self, name: str) -> Path:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder):
            raise PermissionError(f"{name} lies outside the project")
        return path

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _files(self, path: str = ".") -> list[Path]:
        start = self._path(path)
        if start.is_file():
            return [start]
        return sorted(file for file in start.rglob("*") if file.is_file())
