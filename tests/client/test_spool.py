"""The spool file: ordered, bounded, intact after any crash, and shared by processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from historyapp.client import NotSpooled, Spool
from historyapp.client.spool import MIN_BYTES, Write

SERVER = "http://127.0.0.1:8000"
WRITER = """
import sys
from historyapp.client.spool import Spool, Write

spool = Spool(sys.argv[1])
for number in range(int(sys.argv[3])):
    spool.put(Write("http://127.0.0.1:8000", "/sessions/s/entries", f"{sys.argv[2]}-{number}", b"{}"))
    print(number, flush=True)
"""


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "agent.spool")


def write(key: str, *, body: bytes = b"{}", server: str = SERVER, path: str = "/sessions/s/entries") -> Write:
    return Write(server, path, key, body)


def emptied(spool: Spool) -> list[str]:
    """The keys of all writes in the order in which they would be sent."""
    keys = []
    while write := spool.first(SERVER):
        keys.append(write.key)
        spool.remove(write)
    return keys


def test_writes_are_read_unchanged(spool: Spool) -> None:
    for key in ("a", "b", "c"):
        spool.put(write(key, body=key.encode()))
    again = Spool(spool.path)
    first = again.first(SERVER)
    assert first is not None
    assert (first.path, first.key, first.body) == ("/sessions/s/entries", "a", b"a")
    assert again.waiting() == 3
    assert emptied(again) == ["a", "b", "c"]
    assert (spool.waiting(), spool.first(SERVER)) == (0, None)


def test_a_server_receives_only_its_own_writes(spool: Spool) -> None:
    spool.put(write("a", server="http://other:1"))
    assert spool.first(SERVER) is None
    assert (spool.waiting("http://other:1"), spool.waiting(SERVER), spool.waiting()) == (1, 0, 1)


def test_a_full_spool_raises_and_keeps_its_writes(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "small", max_bytes=MIN_BYTES)
    kept: list[str] = []

    def fill() -> None:
        for number in range(1000):
            spool.put(write(str(number), body=b"x" * 1000))
            kept.append(str(number))

    with pytest.raises(NotSpooled, match=r"was not recorded.*is full: its limit is 65,536 bytes.*max_bytes"):
        fill()
    assert len(kept) > 20
    assert spool.path.stat().st_size <= MIN_BYTES
    first = spool.first(SERVER)
    assert first is not None
    spool.mark_refused(first, {"detail": "x" * 1000})  # there is room for that in a full file too
    assert emptied(spool) == kept[1:]
    spool.put(write("new", body=b"x" * 1000))


def test_one_write_that_is_larger_than_the_spool_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "small", max_bytes=MIN_BYTES)
    with pytest.raises(NotSpooled, match="is full"):
        spool.put(write("a", body=b"x" * MIN_BYTES))
    assert spool.waiting() == 0


def test_only_its_owner_can_read_it(spool: Spool) -> None:
    assert spool.path.stat().st_mode & 0o777 == 0o600


def test_the_default_path_is_in_the_users_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Spool().path == tmp_path / ".local" / "state" / "playhead" / "spool"
    assert Spool().path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [({"max_bytes": 100}, "at least 65536"), ({"patience": 0}, "more than 0"), ({"patience": -1.0}, "0 s")],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Spool(tmp_path / "spool", **options)  # type: ignore[arg-type]


def test_another_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk, bread" * 100)
    with pytest.raises(ValueError, match=r"notes\.txt cannot be a spool: .*another file"):
        Spool(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "milk, bread" * 100
    with pytest.raises(ValueError, match="cannot be a spool"):
        Spool(tmp_path)


def test_a_spool_that_is_damaged_later_is_an_error_that_names_it(spool: Spool) -> None:
    spool.path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(NotSpooled, match=r"agent\.spool cannot be used"):
        spool.put(write("a"))


def test_only_one_client_sends_at_a_time(spool: Spool) -> None:
    held = spool.lock()
    assert held is not None
    assert spool.lock() is None
    assert Spool(spool.path).lock() is None
    held.close()
    again = spool.lock()
    assert again is not None
    again.close()


def test_refused_writes_are_kept_until_they_are_discarded(spool: Spool) -> None:
    for key in ("a", "b"):
        spool.put(write(key, body=b'{"entries": []}'))
    first = spool.first(SERVER)
    assert first is not None
    spool.mark_refused(first, {"status": 409, "detail": "no"})
    (refused,) = Spool(spool.path).refused()
    assert (refused.path, refused.body, refused.problem["status"]) == (first.path, {"entries": []}, 409)
    assert spool.waiting() == 1
    assert (spool.discard_refused(), spool.discard_refused()) == (1, 0)
    assert emptied(spool) == ["b"]


@pytest.mark.slow
def test_processes_can_share_a_spool(spool: Spool) -> None:
    """This one and another, which has begun."""
    command = [sys.executable, "-c", WRITER, str(spool.path), "b", "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "0\n"
        for number in range(40):
            spool.put(write(f"a-{number}"))
        other.communicate(timeout=60)
    assert other.returncode == 0
    keys = emptied(spool)
    assert len(keys) == 80
    for name in "ab":
        assert [key for key in keys if key.startswith(name)] == [f"{name}-{number}" for number in range(40)]


@pytest.mark.slow
def test_a_killed_process_leaves_a_valid_file_with_all_confirmed_writes(spool: Spool) -> None:
    command = [sys.executable, "-c", WRITER, str(spool.path), "a", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) == 25:
                break
        os.kill(process.pid, signal.SIGKILL)
        count = 26 + len(process.stdout.read().splitlines())
    keys = emptied(spool)
    assert keys == [f"a-{number}" for number in range(len(keys))]
    assert len(keys) in (count, count + 1)
