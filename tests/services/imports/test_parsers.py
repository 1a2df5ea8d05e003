"""The parser processes of the web server are shared between projects."""

import threading
from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest
from django.test import override_settings

from historyapp.services.imports.parsers import MAX_PROCESSES, OF_PROJECT, RETRY_SECONDS, ParserPool
from historyapp.wire.problems import ServerUnavailable, TooManyRequests

briefly = override_settings(PLAYHEAD_QUEUE_SECONDS=0.05)


def acquire(pool: ParserPool, project: UUID, times: int = 1) -> ExitStack:
    stack = ExitStack()
    for _ in range(times):
        stack.enter_context(pool.acquire(project))
    return stack


@briefly
def test_a_project_cannot_use_all_processes() -> None:
    pool, project = ParserPool(), uuid4()
    with acquire(pool, project, OF_PROJECT):
        with pytest.raises(TooManyRequests, match="imports of this project") as refused:
            acquire(pool, project)
        assert refused.value.retry_after == RETRY_SECONDS
        acquire(pool, uuid4()).close()
    acquire(pool, project).close()


@briefly
def test_an_import_is_refused_if_no_process_becomes_free_in_time() -> None:
    pool = ParserPool()
    with ExitStack() as stack:
        for _ in range(MAX_PROCESSES):
            stack.enter_context(pool.acquire(uuid4()))
        with pytest.raises(ServerUnavailable, match="imports of this server") as refused:
            acquire(pool, uuid4())
        assert (refused.value.code, refused.value.retry_after) == ("busy", RETRY_SECONDS)


def test_an_import_waits_for_a_process() -> None:
    pool, project = ParserPool(), uuid4()
    used = acquire(pool, project, OF_PROJECT)
    timer = threading.Timer(0.05, used.close)
    timer.start()
    with pool.acquire(project):
        timer.join()
