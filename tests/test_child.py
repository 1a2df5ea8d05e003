"""A child process can be limited by its parent."""

import os
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest

from historyapp import child
from historyapp.child import Child


def test_a_process_is_killed_for_its_memory_whatever_its_user_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser took 2.3 GB while the importing thread stored what it had sent before."""
    monkeypatch.setattr(child, "MEMORY_CHECK_SECONDS", 0.001)
    killed = Event()
    process = Mock(spec=Child, memory=Mock(side_effect=[50, 100, 101]), kill=Mock(side_effect=killed.set))
    with Child.limited_memory(process, 100) as is_too_large:
        assert killed.wait(60)
        assert is_too_large()
    process.kill.assert_called_once_with()


def test_pages_of_files_are_no_memory_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite maps the database, and a process with much memory is ended."""
    process = Child.__new__(Child)
    process._process = Mock(pid=1)
    monkeypatch.setattr(Path, "read_text", lambda path: "9000 500 200 1 0 300 0")
    assert process.memory() == 300 * os.sysconf("SC_PAGE_SIZE")
