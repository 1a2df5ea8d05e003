"""Tests run in several processes give the results that they give in one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installation import ROOT

FIRST = """
import os, warnings
def test_passes(tmp_path):
    warnings.warn("a warning of a test")
def test_fails():
    print("printed before it failed")
    assert 1 == 2
"""
LAST = """
import os, pytest
@pytest.fixture(scope="module")
def whole(request):
    yield "set up"
    print("torn down")
def test_one(whole): assert whole
def test_other(whole): assert whole
@pytest.mark.skip
def test_skipped(): raise AssertionError
"""
CRASHES = (
    "import os\ndef test_before(): pass\ndef test_ends_its_process(): os._exit(3)\ndef test_after(): pass\n"
)
WRITES = "import os\ndef test_writes(): open({name!r}, 'a').write('{file} ' + str(os.getpid()) + '\\n')\n"


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), "-p", "tests.processes"]
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [*command, *options, *sorted(map(str, folder.glob("test_*.py")))],
        cwd=ROOT,
        # With temporary folders of its own: at its end, pytest removes what killed runs left in the others.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_DEBUG_TEMPROOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_failures_output_warnings_and_skips_are_reported(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(FIRST)
    (tmp_path / "test_last.py").write_text(LAST)
    ended = run(tmp_path, "--processes", "1", "1")
    assert ended.returncode == 1
    assert "1 failed, 3 passed, 1 skipped, 1 warning" in ended.stdout
    assert "printed before it failed" in ended.stdout
    assert "a warning of a test" in ended.stdout
    assert "torn down" not in ended.stdout  # it is the output of a test that passed


def test_a_test_that_ends_its_process_fails_and_the_other_files_run(tmp_path: Path) -> None:
    (tmp_path / "test_crashes.py").write_text(CRASHES)
    (tmp_path / "test_last.py").write_text(LAST)
    ended = run(tmp_path, "--processes", "1", "1")
    assert "exit code 3 during this test" in ended.stdout
    assert "1 failed, 3 passed, 1 skipped" in ended.stdout
    assert re.search(r"^FAILED .*test_ends_its_process", ended.stdout, re.MULTILINE)


@pytest.mark.parametrize("numbers", [("1", "0"), ("0", "1")])
def test_files_are_taken_from_the_start_or_the_end(tmp_path: Path, numbers: tuple[str, str]) -> None:
    written = tmp_path / "written"
    for file in "abc":
        (tmp_path / f"test_{file}.py").write_text(WRITES.format(name=str(written), file=file))
    assert run(tmp_path, "--processes", *numbers).returncode == 0
    order = [line.split()[0] for line in written.read_text().splitlines()]
    assert order == (["a", "b", "c"] if numbers == ("1", "0") else ["c", "b", "a"])


def test_one_process_runs_all_files_of_a_folder_that_share_something(tmp_path: Path) -> None:
    written, shared = tmp_path / "written", tmp_path / "shared"
    shared.mkdir()
    for file in "abc":
        slow = (
            WRITES.format(name=str(written), file=file) + "def test_waits(): __import__('time').sleep(0.3)\n"
        )
        (shared / f"test_{file}.py").write_text(slow)
    assert run(tmp_path, "--processes", "1", "1", "--together", "shared", str(shared)).returncode == 0
    processes = [line.split()[1] for line in written.read_text().splitlines()]
    assert processes == [processes[0]] * 3


STOPPED = """
import pytest, time
@pytest.fixture(scope="module", autouse=True)
def _started():
    yield
    open({name!r}, "w").close()
def test_takes_long(): time.sleep({seconds})
"""


def test_after_too_many_failures_fixtures_of_other_processes_end(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    (tmp_path / "test_a.py").write_text("import time\ndef test_fails(): time.sleep(1); assert 1 == 2\n")
    (tmp_path / "test_b.py").write_text("def test_is_not_run(): pass\n")
    (tmp_path / "test_c.py").write_text(STOPPED.format(name=str(ended), seconds=50))
    run_of_three = run(tmp_path, "--processes", "1", "1", "-x")
    assert run_of_three.returncode == 1
    assert re.search(r"^.* 1 failed in", run_of_three.stdout, re.MULTILINE)
    assert ended.exists()


def test_a_process_that_catches_the_signal_is_killed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import tests.processes\ntests.processes.STOP_SECONDS = 1\n")
    (tmp_path / "test_a.py").write_text("import time\ndef test_fails(): time.sleep(1); assert 1 == 2\n")
    catches = "signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(50)"
    # Each process takes its next file before it ends the first one. Without a third file, the process that
    # waits would take both if it started first.
    (tmp_path / "test_b.py").write_text("def test_passes(): pass\n")
    (tmp_path / "test_c.py").write_text(f"import signal, time\ndef test_waits(): {catches}\n")
    stopped = run(tmp_path, "--processes", "1", "1", "-x")
    assert stopped.returncode == 1
    seconds = re.search(r" 1 failed in ([\d.]+)s", stopped.stdout)
    assert seconds is not None, stopped.stdout
    assert float(seconds[1]) < 40
