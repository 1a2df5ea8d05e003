"""A short version of ``bench/kills.py``: processes are killed while writers append."""

import random
import subprocess
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from bench.kills import PATIENCE, Outcome, Server, installation, kill_under_writers
from tests.environment import start_postgres, stop_postgres
from tests.forking import forked_playhead
from tests.installation import Installation, copy_migrated
from tests.redis import redis_server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("lighter")]


def assert_nothing_went_wrong(seen: Outcome, kills: int) -> None:
    assert seen.by_part.total() == kills
    assert seen.acknowledged > 0
    assert (seen.lost, seen.doubled, seen.partial, seen.misplaced) == (0, 0, 0, 0)
    assert seen.refused == []
    assert seen.failed_starts == []
    assert seen.doubled_summaries == 0
    assert (seen.events_lost, seen.follower.doubled(), seen.follower.failed) == (0, 0, "")
    assert seen.rebuilt.endswith("no differences.")


class ForkedServer(Server):
    """Each ``playhead up`` is a child of one process, which has loaded all modules."""

    program: Path
    loaded: psutil.Process

    def start(self) -> None:
        self._log = next(self._logs)
        command = [str(self.program), "up", "--no-demo", "--port", str(self._port)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, text=True)

    def kill_parent(self) -> None:
        children, program = self._children(), self._process
        self._orphans += children
        psutil.Process(children[0].ppid()).kill()
        self.start()
        assert program is not None
        program.wait(PATIENCE)  # it ends with the web process

    def _children(self) -> list[psutil.Process]:
        """Those of the newest ``playhead up``. No other child of the loaded process has any."""
        for child in reversed(self.loaded.children()):
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE and (children := child.children()):
                    return list(children)
        return []


def test_a_kill_of_the_web_process_or_its_parent_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.kills.WRITERS", 3)
    monkeypatch.setattr("bench.kills.Server", ForkedServer)
    home = copy_migrated(tmp_path / "home")
    with forked_playhead(tmp_path / "bin", installation(home, "", None).environment) as pid:
        program = tmp_path / "bin" / "playhead"
        monkeypatch.setattr(ForkedServer, "program", program, raising=False)
        monkeypatch.setattr(ForkedServer, "loaded", psutil.Process(pid), raising=False)
        run = partial(subprocess.run, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
        monkeypatch.setattr(Installation, "manage", lambda _, *command: run([program, *command]).stdout)
        seen = kill_under_writers(home, 2, random.Random(5), compressing=False)
    assert_nothing_went_wrong(seen, 2)


@pytest.mark.thorough
def test_kills_of_every_part_lose_nothing(tmp_path: Path) -> None:
    """With PostgreSQL and Redis. Each is killed at least once."""
    with tempfile.TemporaryDirectory(prefix="playhead-kills-") as folder, redis_server() as redis:
        url = start_postgres(Path(folder) / "data")
        try:
            seen = kill_under_writers(tmp_path / "home", 8, random.Random(6), url=url, redis=redis)
        finally:
            stop_postgres(Path(folder) / "data")
    assert set(seen.by_part) == {"web", "parent", "worker", "redis", "backend"}
    assert_nothing_went_wrong(seen, 8)


def test_the_comparison_finds_what_is_lost_doubled_partial_or_misplaced() -> None:
    """Otherwise the tests above could not fail."""
    from bench.kills import Writer

    writer = Writer("w", 0, False, {"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [7, 8]})
    call = [{"position": position, "tool_calls": [{"id": text}]} for text, position in COUNTED]
    seen = Outcome()
    seen.compare(writer, call)
    assert (seen.lost, seen.doubled, seen.partial, seen.misplaced) == (1, 1, 1, 2)


COUNTED = [("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5), ("b", 6), ("c", 9)]
