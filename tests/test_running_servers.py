"""Other commands on the machine know a server's address exactly while the server runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from historyapp.running_servers import announced, running_address

SERVER = """
import sys, time
from pathlib import Path
from historyapp.running_servers import announced
with announced(Path(sys.argv[1]), sys.argv[2]):
    print("here", flush=True)
    time.sleep(60)
"""


@contextmanager
def another(folder: Path, address: str) -> Iterator["subprocess.Popen[str]"]:
    """A server in a process of its own."""
    command = [sys.executable, "-c", SERVER, str(folder), address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def test_no_server_runs_on_an_empty_or_missing_folder(tmp_path: Path) -> None:
    assert running_address(tmp_path) is None
    assert running_address(tmp_path / "nowhere") is None


def test_the_address_is_known_while_the_server_runs_and_not_after(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:9000"):
        assert running_address(tmp_path) == "http://127.0.0.1:9000"
    assert running_address(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_killed_server_does_not_count_as_running(tmp_path: Path) -> None:
    with another(tmp_path, "http://127.0.0.1:9001") as process:
        assert running_address(tmp_path) == "http://127.0.0.1:9001"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert running_address(tmp_path) is None
        assert len(list(tmp_path.iterdir())) == 1
    with announced(tmp_path, "http://127.0.0.1:9002"):
        assert len(list(tmp_path.iterdir())) == 1, "the next server clears up"


def test_the_newer_of_two_servers_is_named_and_then_the_older_one(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:9003"):
        (older,) = tmp_path.iterdir()
        os.utime(older, (1, 1))
        with another(tmp_path, "http://127.0.0.1:9004"):
            assert running_address(tmp_path) == "http://127.0.0.1:9004"
        assert running_address(tmp_path) == "http://127.0.0.1:9003"


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    with announced(tmp_path, "http://127.0.0.1:9005"):
        assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_a_server_runs_even_if_it_cannot_store_its_address(tmp_path: Path) -> None:
    with announced(tmp_path / "nowhere", "http://127.0.0.1:9006"):
        assert running_address(tmp_path / "nowhere") is None


def test_an_error_of_the_server_is_not_swallowed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), announced(tmp_path, "http://127.0.0.1:9007"):
        raise OSError("mine")
    assert list(tmp_path.iterdir()) == []
