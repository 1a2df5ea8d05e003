"""A clock that jumps, forwards or backwards, loses no entry, repeats no request and wedges no worker."""

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.errors import NotFound
from historyapp.models import (
    ApiKey,
    AuditRecord,
    CompressionItem,
    IdempotencyKey,
    Project,
    Session,
    SpendingCounter,
    Summary,
    database_clock,
)
from historyapp.models import Worker as WorkerRow
from historyapp.models.database_clock import CLOCK, UNCERTAIN_SECONDS, JumpWatch
from historyapp.models.history import History
from historyapp.services import idempotency
from historyapp.services.append import append
from historyapp.services.caps import set_caps
from historyapp.services.compression.claims import claim, renew
from historyapp.services.compression.items import plan
from historyapp.services.compression.provider_limits import wait_for_provider
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run, unclaimed_runs
from historyapp.services.idempotency import StoredResponse, carry_out_once
from historyapp.services.keys import create_key, create_sign_in_link, record_use, use_sign_in_link
from historyapp.services.projections import rebuild
from historyapp.services.reservations import reserve
from historyapp.services.retention import purgeable
from historyapp.services.sessions import change_session
from historyapp.services.spending import Payer
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.services.workers import record_worker
from tests.services.drafts import act, ask, ok

Jump = Callable[..., None]
DAY = timedelta(days=1)
PAST, FUTURE = -400 * DAY, 400 * DAY


on_sqlite_and_linux = pytest.mark.skipif(
    "config.getoption('database') == 'postgres' or sys.platform != 'linux'",
    reason="only there a clock shows that another one was set",
)


def pass_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Lets time pass, in addition to jumps of the wall clock: both clocks go on."""
    before = database_clock.elapsed
    monkeypatch.setattr(database_clock, "elapsed", lambda: before() + seconds)
    monkeypatch.setattr(CLOCK, "_offset", CLOCK._offset - seconds)


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Sets the wall clock forwards or backwards from the real time."""
    monkeypatch.setattr(CLOCK, "_offset", CLOCK._offset)
    monkeypatch.setattr(CLOCK, "_set_at", None)
    offset = timedelta()
    now, seconds = timezone.now, time.time
    monkeypatch.setattr(timezone, "now", lambda: now() + offset)
    monkeypatch.setattr(time, "time", lambda: seconds() + offset.total_seconds())

    def jump(by: timedelta) -> None:
        nonlocal offset
        offset = by

    return jump


@on_sqlite_and_linux
def test_a_process_that_starts_after_a_jump_knows_of_it(
    jump: Jump, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that started after an idle minute deleted all changes, and a cap began a new day."""
    settings.PLAYHEAD_HOME = tmp_path
    first, *later = [JumpWatch() for _ in range(2)]
    assert not first.was_just_set()
    jump(FUTURE)
    later += [JumpWatch() for _ in range(2)]
    assert all(watch.was_just_set() for watch in later)
    assert first.was_just_set()
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    for watch in (first, *later):
        watch._offset -= UNCERTAIN_SECONDS + 1
    assert not any(watch.was_just_set() for watch in (first, *later))
    assert [path.name for path in tmp_path.iterdir()] == ["clock.json"]


@on_sqlite_and_linux
@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"boot": 1}', "clock.json is missing"])
def test_a_clock_file_that_is_damaged_or_of_an_earlier_start_is_written_again(
    jump: Jump, settings: Any, tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLAYHEAD_HOME = tmp_path
    JumpWatch().was_just_set()
    file = tmp_path / "clock.json"
    file.write_text(damage)
    jump(FUTURE)
    assert not JumpWatch().was_just_set()
    known = file.read_text()
    assert json.loads(known)["set_at"] is None
    monkeypatch.setattr(database_clock, "_boot_id", lambda: "another start")
    assert not JumpWatch().was_just_set()
    assert file.read_text() != known


@on_sqlite_and_linux
def test_a_data_folder_without_room_hides_no_jump(jump: Jump, settings: Any, tmp_path: Path) -> None:
    settings.PLAYHEAD_HOME = tmp_path / "missing"
    watch = JumpWatch()
    assert not watch.was_just_set()
    jump(PAST)
    assert watch.was_just_set()


@pytest.fixture
def steps(project: Project, session: Session, jump: Jump) -> Session:
    """Six steps, recorded while the clock jumped forwards and backwards."""
    append(project, session.pk, [ask("Mend the parser")])
    for number, offset in enumerate((DAY, -DAY, FUTURE, PAST, timedelta(0), -timedelta(hours=1))):
        jump(offset)
        append(project, session.pk, [act("read", path=f"{number}.py")])
        jump(-offset)
        append(project, session.pk, [ok(outputs=f"line {number}\n" * 20)])
    jump(timedelta(0))
    return Session.objects.get(pk=session.pk)


def test_entries_keep_the_order_of_their_appends(steps: Session, project: Project) -> None:
    history = History(steps)
    assert [entry.position for entry in history.entries()] == list(range(1, 14))
    paths = [episode.action.arguments["path"] for episode in history.episodes(1, 6) if episode.action]
    assert paths == [f"{number}.py" for number in range(6)]
    assert [episode.number for episode in History(steps, 7).episodes(1, 3)] == [1, 2, 3]
    assert rebuild(steps).differences == []


def test_pages_show_such_a_session(steps: Session, project: Project, client: Client) -> None:
    user = User.objects.create_user("alice")
    project.members.add(user, through_defaults={"is_owner": True})
    client.force_login(user)
    for path in ("/", f"/sessions/{steps.pk}", f"/sessions/{steps.pk}?as_of=7"):
        page = client.get(path, follow=True)
        assert page.status_code == 200, path
        assert ">-" not in page.content.decode(), "no duration is negative"


@pytest.mark.skipif("config.getoption('database') == 'postgres'", reason="its server's clock decides")
@pytest.mark.parametrize("offset", [PAST, -DAY, -timedelta(hours=3)])
def test_claims_of_a_killed_worker_expire_although_the_clock_was_set_back(
    steps: Session, project: Project, jump: Jump, offset: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, steps.pk, RunRequest(strategy="episode_summary", model="local")).run
    plan(run.pk)
    assert claim(run.pk, uuid4(), 1)
    assert unclaimed_runs() == []
    jump(offset)
    pass_seconds(monkeypatch, 31)
    assert unclaimed_runs() == [run.pk]
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.failed) == ("succeeded", 0)
    assert Summary.objects.count() == run.items.filter(state=CompressionItem.State.DONE).count()


@pytest.mark.parametrize("offset", [PAST, FUTURE])
def test_claims_of_a_living_worker_hold_after_its_next_renewal(
    steps: Session, project: Project, jump: Jump, offset: timedelta
) -> None:
    run = start_run(project, steps.pk, RunRequest(strategy="episode_summary", model="local")).run
    plan(run.pk)
    owner = uuid4()
    claim(run.pk, owner, 1)
    jump(offset)
    renew(owner)
    assert unclaimed_runs() == []


def test_a_dead_worker_is_not_alive_because_the_clock_was_set_back(db: None, jump: Jump) -> None:
    record_worker(dead := uuid7())
    jump(-DAY)
    assert not WorkerRow.objects.alive().exists()
    record_worker(dead)
    assert WorkerRow.objects.alive().exists()


def test_a_day_is_not_paid_for_twice_by_a_clock_that_jumps_ahead_and_back(
    project: Project, session: Session, jump: Jump
) -> None:
    set_caps(project, {"day": 1_000_000})
    payer = Payer(project.pk, session.pk, None)
    for offset in (DAY, timedelta(0), -DAY, DAY):
        jump(offset)
        reserve(payer, "gpt-5", 1000, 500)
    jump(timedelta(0))
    each = reserve(payer, "gpt-5", 1000, 500).attempt_cost
    (counter,) = SpendingCounter.objects.of_project(project.pk).capped()
    assert counter.starts_on == datetime.now(UTC).date()
    assert counter.counted == 5 * each, "nothing is forgotten soon after a jump"


@pytest.mark.skipif("sys.platform != 'linux'", reason="needs a clock that is never set")
@pytest.mark.parametrize("offset", [timedelta(hours=1), PAST])
def test_a_running_call_keeps_its_reservation_and_counts_what_it_costs(
    project: Project, session: Session, jump: Jump, offset: timedelta
) -> None:
    """The next call removed it as that of a killed process, so its reserved maximum counted."""
    payer = Payer(project.pk, session.pk, None)
    running = reserve(payer, "gpt-5", 1000, 500)
    jump(offset)
    reserve(payer, "gpt-5", 1000, 500).settle(0)
    jump(timedelta(0))
    running.settle(7)
    counters = SpendingCounter.objects.of_project(project.pk)
    assert set(counters.values_list("counted", flat=True)) == {7}


@on_sqlite_and_linux
def test_a_cap_does_not_last_until_a_wrong_date(
    project: Project, session: Session, jump: Jump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that had been five years ahead for a moment: no paid call until then."""
    set_caps(project, {"day": 1_000_000, "month": 1_000_000})
    payer = Payer(project.pk, session.pk, None)
    each = reserve(payer, "gpt-5", 1000, 500).attempt_cost

    def counters() -> set[tuple[date, int]]:
        reserve(payer, "gpt-5", 1000, 500)
        return set(SpendingCounter.objects.of_project(project.pk).values_list("starts_on", "counted"))

    jump(1800 * DAY)
    CLOCK.was_just_set()
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    ahead = datetime.now(UTC).date() + 1800 * DAY
    assert counters() == {(ahead, each), (ahead.replace(day=1), each)}
    jump(timedelta(0))
    CLOCK.was_just_set()
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    today = datetime.now(UTC).date()
    assert counters() == {(today, 2 * each), (today.replace(day=1), 2 * each)}
    SpendingCounter.objects.update(starts_on=ahead)
    jump(-18_000 * DAY)
    CLOCK.was_just_set()
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    reserve(payer, "gpt-5", 1000, 500)
    starts = set(SpendingCounter.objects.of_project(project.pk).values_list("starts_on", flat=True))
    assert starts == {ahead}, "a clock without a battery is behind: the day must not begin again after it"
    SpendingCounter.objects.update(starts_on=today)
    jump(40 * DAY)
    CLOCK.was_just_set()
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    assert {counted for _, counted in counters()} == {each}


@on_sqlite_and_linux
def test_a_request_is_not_carried_out_again_because_the_clock_jumped_ahead(
    project: Project, jump: Jump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_PURGE_EVERY", 1)
    carried_out: list[str] = []

    def request(key: str) -> StoredResponse:
        def carry_out() -> StoredResponse:
            carried_out.append(key)
            return StoredResponse(201, "{}")

        return carry_out_once(project, key, "same", carry_out)

    request("a")
    jump(FUTURE)
    request("b")
    jump(timedelta(0))
    assert request("a").replayed
    assert request("b").replayed
    assert carried_out == ["a", "b"]
    monkeypatch.setattr(idempotency, "_MIN_KEPT_KEYS", 1)
    jump(FUTURE)
    request("c")
    assert IdempotencyKey.objects.filter(key="a").exists(), "the clock may be wrong"
    pass_seconds(monkeypatch, UNCERTAIN_SECONDS + 1)
    request("d")
    assert not IdempotencyKey.objects.filter(key="a").exists(), "old ones still go"


def test_an_expired_sign_in_link_stays_expired(db: None, jump: Jump) -> None:
    token = create_sign_in_link(User.objects.create_user("alice"))
    jump(-DAY)
    with pytest.raises(NotFound):
        use_sign_in_link(token)
    jump(DAY)
    with pytest.raises(NotFound):
        use_sign_in_link(token)


def test_the_last_use_of_a_key_is_stored_after_the_clock_was_set_back(project: Project, jump: Jump) -> None:
    key, _ = create_key(project, "agent")
    jump(FUTURE)
    record_use(key, timezone.now())
    jump(timedelta(0))
    record_use(ApiKey.objects.get(), now := timezone.now())
    assert ApiKey.objects.get().last_used_at == now


def test_a_newer_summary_wins_although_its_clock_was_behind(steps: Session, project: Project) -> None:
    wrong = add_summary(project, steps.pk, (2, 2), SummaryText("wrong"))
    ahead = uuid7(nanoseconds=time.time_ns() + 10**18)
    Summary.objects.filter(pk=wrong.pk).update(id=ahead)
    for text in ("right", "better"):
        add_summary(project, steps.pk, (2, 2), SummaryText(text))
        (episode,) = History(steps).episodes(2, 2)
        assert episode.summary == text


@pytest.mark.parametrize("offset", [PAST, FUTURE])
def test_a_rate_limit_lets_calls_through_after_a_jump(
    jump: Jump, settings: Any, offset: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLAYHEAD_RATE_LIMITS = {"jumping": "1/second"}
    waits = iter([0.0])
    monkeypatch.setattr(time, "sleep", lambda _: next(waits))  # a second wait is an error
    wait_for_provider("jumping", "jumping:1", uuid7())
    jump(offset)
    wait_for_provider("jumping", "jumping:1", uuid7())


def archived(project: Project, session: Session, *, ago: timedelta) -> None:
    change_session(project, session.pk, {"status": "archived"})
    AuditRecord.objects.update(created_at=timezone.now() - ago)


def test_a_session_archived_while_the_clock_was_ahead_is_not_purged_early(
    project: Project, session: Session, jump: Jump
) -> None:
    archived(project, session, ago=-FUTURE)
    assert purgeable(project, timezone.now()) == []
    jump(FUTURE + 11 * DAY)
    assert purgeable(project, timezone.now() - 10 * DAY) == [session]


def test_a_clock_that_was_set_back_purges_nothing(project: Project, session: Session, jump: Jump) -> None:
    archived(project, session, ago=11 * DAY)
    jump(PAST)
    assert purgeable(project, timezone.now() - 10 * DAY) == []
