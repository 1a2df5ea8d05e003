"""A worker's clock keeps running, and finds work without a message."""

import threading
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone

from historyapp import clock
from historyapp.core import vocabularies
from historyapp.core.tokens import count_tokens
from historyapp.lag import QUEUE
from historyapp.models import BulkAction, Evaluation, Project, StaleOutcomes, Worker
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.deletions import INTERRUPTED_AFTER, hide
from historyapp.services.queue import put
from historyapp.services.sessions import create_session
from historyapp.services.transactions import writing
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)

ME = uuid4()


@pytest.fixture(autouse=True)
def _seconds_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LOOK_SECONDS", 0.01)


def run_until_stopped(look: Callable[[threading.Event], None]) -> None:
    stopping = threading.Event()
    clock.run_clock(ME, lambda: look(stopping), stopping)


def test_the_clock_continues_after_an_unexpected_error() -> None:
    looks: list[int] = []

    def look(stopping: threading.Event) -> None:
        looks.append(1)
        if len(looks) == 3:
            stopping.set()
        raise KeyError("unexpected")

    run_until_stopped(look)
    assert len(looks) == 3


def test_a_repeated_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    errors = ["locked", "locked", "", "locked", "gone"]

    def look(stopping: threading.Event) -> None:
        error = errors.pop(0)
        if not errors:
            stopping.set()
        if error:
            raise OperationalError(error)

    run_until_stopped(look)
    records = [record for record in caplog.records if record.name == "historyapp.duties"]
    logged = [record.getMessage().rpartition(": ")[2] for record in records]
    assert logged == ["locked", "locked", "gone"]


def test_the_worker_counts_as_alive_while_its_clock_runs() -> None:
    seen: list[UUID] = []

    def look(stopping: threading.Event) -> None:
        seen.extend(Worker.objects.alive().values_list("id", flat=True))
        stopping.set()

    run_until_stopped(look)
    assert seen == [ME]
    assert not Worker.objects.exists()


class _Enough(BaseException):
    """Ends a clock that runs for ever."""


def _watch(looks: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a worker is requested while the clock looks for work a number of times."""
    requests: list[int] = []
    left = iter(range(looks))

    def wait(event: threading.Event, timeout: float | None = None) -> bool:
        if next(left, None) is None:
            raise _Enough
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    with pytest.raises(_Enough):
        clock.watch_for_work(lambda: requests.append(1), str(ME))
    return len(requests)


def test_a_worker_is_requested_while_a_run_waits_and_not_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(project, session.pk, [draft for _ in range(8) for draft in (act("read", path="a.py"), ok())])
    session.refresh_from_db()
    type(session).objects.update(compression_due=False)
    with monkeypatch.context() as patch:
        assert _watch(2, patch) == 0
    start_run(project, session.pk, RunRequest("simple_extract"))
    assert _watch(2, monkeypatch) == 3


def test_a_worker_is_requested_for_a_session_that_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    session = create_session(Project.objects.create(name="ours"))
    type(session).objects.update(compression_due=True)
    assert _watch(0, monkeypatch) == 1


@pytest.mark.parametrize("broken", ["due_sessions", "unclaimed_runs", "has_stale_sessions", "follow_changes"])
def test_a_search_for_work_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fail(*_: object) -> None:
        raise OverflowError("too large")

    followed: list[int] = []
    monkeypatch.setattr(clock, "follow_changes", lambda limit: followed.append(1))
    monkeypatch.setattr(clock, "projects_to_index", lambda: ["ours"])
    monkeypatch.setattr(clock, broken, fail)
    assert _watch(1, monkeypatch) == 2
    assert followed == ([] if broken == "follow_changes" else [1, 1])


def _message(project: Project) -> None:
    put(QUEUE, "{}")


def _bulk_action(project: Project) -> None:
    BulkAction.objects.create(project=project, kind="archive")


def _evaluation(project: Project) -> None:
    Evaluation.objects.create(project=project)


def _deletion(project: Project) -> None:
    session = create_session(project)
    with writing():
        hide(session, "")
    type(session).objects.update(last_entry_at=timezone.now() - INTERRUPTED_AFTER)


@pytest.mark.parametrize("begin", [_message, _bulk_action, _evaluation, _deletion])
def test_a_worker_is_requested_for_each_kind_of_unfinished_work(
    begin: Callable[[Project], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project.objects.create(name="ours")
    with monkeypatch.context() as patch:
        assert _watch(0, patch) == 0
    begin(project)
    assert _watch(0, monkeypatch) == 1


def test_a_worker_is_requested_for_outcomes_that_an_earlier_version_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    StaleOutcomes.objects.create(session=create_session(Project.objects.create(name="ours")))
    assert _watch(0, monkeypatch) == 1


def test_a_worker_is_requested_for_figures_that_can_be_counted_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.services.figures.run_figures.COUNT_AHEAD_FROM", 3)
    session = create_session(Project.objects.create(name="ours"))
    append(session.project, session.pk, [draft for _ in range(5) for draft in (act("bash"), ok())])
    assert _watch(2, monkeypatch) == 1, "it looks once in a while"


def test_a_worker_is_seldom_requested_for_figures_that_stay_uncounted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damaged = [uuid4()]
    monkeypatch.setattr(clock, "sessions_to_count", lambda: damaged)
    monkeypatch.setattr(clock, "COUNT_SECONDS", 0)
    with monkeypatch.context() as patch:
        assert _watch(5, patch) == 1, "it looks each time"
    monkeypatch.setattr(clock, "REQUEST_SECONDS", 0)
    assert _watch(2, monkeypatch) == 3, "and asks again later"


def test_the_tokenizers_tables_are_released_when_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_tokens("two words") == 2
    assert not vocabularies.release_unused(60), "they were used just now"
    monkeypatch.setattr(vocabularies, "_last_use", time.monotonic() - 61)
    assert vocabularies.release_unused(60)
    assert not vocabularies.release_unused(60)
    assert count_tokens("two words") == 2


def test_a_process_that_is_idle_unmaps_pages_and_a_busy_one_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, used, unmapped = [0.0], [0.0], list[float]()
    monkeypatch.setattr("historyapp.clock.time.monotonic", lambda: now[0])
    monkeypatch.setattr("historyapp.clock.time.process_time", lambda: used[0])
    monkeypatch.setattr(clock, "unmap_code", lambda: unmapped.append(now[0]))
    memory = clock.IdleMemory(60)

    def run(seconds: int, share: float) -> None:
        for _ in range(seconds):
            now[0] += 1
            used[0] += share
            memory.release()

    run(100, share=0.5)
    assert unmapped == []
    run(150, share=0.01)
    assert unmapped == [160, 220]
