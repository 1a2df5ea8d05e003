"""Streams that are behind read missed changes one page at a time, and projects take turns."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from historyapp.front import streams
from historyapp.front.streams import Streams
from historyapp.models.changes import ChangePage, Cursor
from tests.front.test_streams import OTHER_PROJECT, PROJECT, SESSION, Database, Follower, database, run

__all__ = ["database"]
MISSED = Cursor(0, 1)


class MissedReads:
    """Notes the reads of missed changes, and how many of one project ran at the same time."""

    def __init__(self, database: Database) -> None:
        self.projects: list[UUID] = []
        self.most_at_once = 0
        self._running: Counter[UUID] = Counter()
        self._read = database.changes_since

    def __call__(self, project: UUID, cursor: Cursor, **options: Any) -> ChangePage:
        if not threading.current_thread().name.startswith("missed events"):
            return self._read(project, cursor, **options)
        self.projects.append(project)
        self._running[project] += 1
        self.most_at_once = max(self.most_at_once, self._running[project])
        time.sleep(0.001)
        self._running[project] -= 1
        return self._read(project, cursor, **options)


@pytest.fixture
def reads(database: Database, monkeypatch: pytest.MonkeyPatch) -> MissedReads:
    reads = MissedReads(database)
    monkeypatch.setattr(streams, "changes_since", reads)
    database.page = 2
    database.add(count=20)
    return reads


def test_projects_take_turns(database: Database, reads: MissedReads) -> None:
    """A stream that is alone in its project gets far more pages than one of twenty in another project."""
    database.other_has_more = True

    async def scenario(all_streams: Streams) -> None:
        newest = Cursor(0, 20)
        many = [Follower(all_streams, SESSION, newest=newest) for _ in range(20)]
        other = Follower(all_streams, newest=MISSED, project=OTHER_PROJECT)
        while any(len(follower.ids) < 20 for follower in many):
            await asyncio.sleep(0)  # no time passes while the other stream reads
        assert all(follower.ids == list(range(1, 21)) for follower in many)
        assert not other.task.done()

    run(scenario)
    last = len(reads.projects) - reads.projects[::-1].index(PROJECT)
    pages = Counter(reads.projects[:last])
    assert pages[PROJECT] >= 200
    assert pages[OTHER_PROJECT] > 50
    assert reads.most_at_once == 1


def test_a_stream_that_has_ended_reads_nothing_more(database: Database, reads: MissedReads) -> None:
    async def scenario(all_streams: Streams) -> None:
        followers = [Follower(all_streams, newest=Cursor(0, 20)) for _ in range(50)]
        await asyncio.sleep(0)
        while not reads.projects:
            await asyncio.sleep(0)
        all_streams.stop()
        for follower in followers:
            await follower.task

    run(scenario)
    assert len(reads.projects) < 40
