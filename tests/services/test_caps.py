"""Caps are hard limits: the possible cost of a model call is reserved first, by any number of workers."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.errors import Invalid
from historyapp.models import ApiKey, AuditRecord, Project, Session, SpendingCounter, SpendingReservation
from historyapp.models.database_clock import claim_now
from historyapp.models.spending import with_ancestors
from historyapp.services.caps import applicable_caps, caps_of, project_caps, set_caps
from historyapp.services.keys import create_key
from historyapp.services.reservations import Reservation, reserve
from historyapp.services.rewinds import fork
from historyapp.services.sessions import StartingToolCall, create_session
from historyapp.services.spending import Payer
from historyapp.wire.problems import CapReached

DOLLAR = 1_000_000


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


@pytest.fixture
def key(project: Project) -> ApiKey:
    return create_key(project, "agent", scopes=("read", "write", "spend"))[0]


def payer(session: Session, key: ApiKey | None = None) -> Payer:
    return Payer(session.project_id, session.pk, None if key is None else key.pk)


def reserve_call(session: Session, key: ApiKey | None = None) -> Reservation:
    return reserve(payer(session, key), "gpt-5", 1000, 500)


def test_a_cap_has_its_spent_and_its_reserved_amount(project: Project, session: Session) -> None:
    set_caps(project, {"day": DOLLAR, "month": 2 * DOLLAR})
    first, second = reserve_call(session), reserve_call(session)
    first.settle(123)
    for cap in project_caps(project):
        assert (cap.spent, cap.reserved) == (123, second.attempt_cost)
        assert cap.left == cap.limit - 123 - second.attempt_cost
    second.settle(None)
    spent = 123 + second.attempt_cost
    assert [(cap.spent, cap.reserved) for cap in project_caps(project)] == [(spent, 0)] * 2


def test_a_cap_counts_amounts_spent_before_it_was_set(
    project: Project, session: Session, key: ApiKey
) -> None:
    reserve_call(session, key).settle(777)
    set_caps(project, {"day": DOLLAR})
    set_caps(project, {"month": DOLLAR}, session=session)
    set_caps(project, {"day": DOLLAR}, key=key)
    assert [cap.spent for cap in applicable_caps(session, key)] == [777] * 3
    set_caps(project, {"day": None})
    set_caps(project, {"day": 2 * DOLLAR})
    assert project_caps(project)[0].spent == 777, "removing a cap and setting it again forgets nothing"


def test_the_caps_of_session_and_key_hold_for_their_own_calls_only(
    project: Project, session: Session, key: ApiKey
) -> None:
    other = create_session(project)
    set_caps(project, {"day": 0}, session=session)
    with pytest.raises(CapReached, match=f"The session {session.pk} may spend \\$0.00 a day"):
        reserve_call(session)
    set_caps(project, {"day": None}, session=session)
    set_caps(project, {"month": 0}, key=key)
    with pytest.raises(CapReached, match=f"The API key {key.prefix}… may spend \\$0.00 a month"):
        reserve_call(other, key)
    reserve_call(other)
    reserve_call(session)


def test_a_fork_and_a_sub_agent_count_in_the_cap_of_their_session(project: Project, session: Session) -> None:
    forked = fork(project, session.pk)
    again = fork(project, forked.pk)
    helper = create_session(project)
    Session.objects.filter(pk=helper.pk).update(spawned_by=again)
    helper.refresh_from_db()
    each = reserve_call(session).attempt_cost
    set_caps(project, {"day": 4 * each}, session=session)
    for other in (forked, again, helper):
        reserve_call(other)
    with pytest.raises(CapReached, match=f"The session {session.pk} may spend"):
        reserve_call(helper)
    (cap,) = applicable_caps(helper)
    assert (cap.counter.session_id, cap.reserved) == (session.pk, 4 * each)
    assert applicable_caps(create_session(project)) == []


def test_a_loop_of_sub_agents_does_not_hang(project: Project, session: Session) -> None:
    other = create_session(project)
    Session.objects.filter(pk=session.pk).update(spawned_by=other)
    Session.objects.filter(pk=other.pk).update(spawned_by=session)
    reserve_call(session)
    assert SpendingCounter.objects.exclude(session=None).count() == 4


def test_a_session_with_too_many_ancestors_calls_no_model(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its counters would be written under the lock that all other writers of SQLite wait for."""
    monkeypatch.setattr("historyapp.models.spending.MAX_ANCESTORS", 3)
    monkeypatch.setattr("historyapp.services.reservations.MAX_ANCESTORS", 3)
    chain = [session]
    for _ in range(5):
        chain.append(create_session(project, starter=StartingToolCall(chain[-1])))
    set_caps(project, {"day": 0}, session=session)
    with pytest.raises(CapReached, match=f"The session {session.pk} may spend"):
        reserve_call(chain[2])
    for model in ("gpt-5", "a model without a price"):
        with pytest.raises(Invalid, match="more than 3 ancestors"):
            reserve(payer(chain[3]), f"openai:{model}", 1000, 500)
    assert with_ancestors(chain[5].pk) == [each.pk for each in chain[:1:-1]], "the nearest, for pages"
    assert applicable_caps(chain[5]) == []
    assert not SpendingReservation.objects.exists()


def test_a_refusal_by_several_caps_names_the_one_that_ends_last(project: Project, session: Session) -> None:
    set_caps(project, {"day": 0, "month": 0})
    set_caps(project, {"day": 0}, session=session)
    with pytest.raises(CapReached, match=r"The project may spend .* a month") as caught:
        reserve_call(session)
    assert caught.value.fields["subject"] == "project"
    assert caught.value.fields["ends_at"].endswith("-01T00:00:00Z")
    assert not SpendingReservation.objects.exists()


def test_the_reservation_of_a_killed_process_expires_and_stays_counted(
    project: Project, session: Session
) -> None:
    killed = reserve_call(session)
    set_caps(project, {"month": 10 * killed.attempt_cost})
    SpendingReservation.objects.update(expires_at=claim_now() - timedelta(seconds=1))
    (cap,) = project_caps(project)
    assert (cap.spent, cap.reserved) == (killed.attempt_cost, 0)
    reserve_call(session).settle(0)
    assert not SpendingReservation.objects.exists(), "the next call removes the row"
    killed.settle(0)
    assert project_caps(project)[0].spent == killed.attempt_cost, "an answer after that corrects nothing"


def test_a_reservation_ends_once(project: Project, session: Session) -> None:
    set_caps(project, {"day": DOLLAR})
    reservation = reserve_call(session)
    reservation.settle(5)
    reservation.settle(0)
    assert project_caps(project)[0].spent == 5


def test_a_call_that_cost_more_than_its_estimate_is_counted_in_full(
    project: Project, session: Session
) -> None:
    set_caps(project, {"day": DOLLAR})
    reserve_call(session).settle(2 * DOLLAR)
    (cap,) = project_caps(project)
    assert (cap.spent, cap.left) == (2 * DOLLAR, 0)


def test_a_new_period_begins_at_zero_and_an_old_call_does_not_count_in_it(
    project: Project, session: Session
) -> None:
    set_caps(project, {"day": DOLLAR})
    reservation = reserve_call(session)
    (cap,) = caps_of(list(SpendingCounter.objects.capped()), datetime(2040, 1, 31, 12, tzinfo=UTC))
    assert (cap.spent, cap.reserved, cap.counter.starts_on) == (0, 0, date(2040, 1, 31))
    cap.counter.save()
    reservation.settle(5)
    assert SpendingCounter.objects.get(pk=cap.counter.pk).counted == 0


def test_a_month_ends_where_the_next_begins() -> None:
    counter = SpendingCounter(period="month", limit=1, starts_on=date(2027, 12, 1))
    assert counter.ends_at == datetime(2028, 1, 1, tzinfo=UTC)
    counter.begin_period(datetime(2027, 11, 5, tzinfo=UTC))
    assert counter.starts_on == date(2027, 12, 1), "a clock that was set back starts no period twice"


def test_days_are_those_of_utc() -> None:
    counter = SpendingCounter(period="day", limit=1, starts_on=date(2027, 5, 1), counted=7)
    counter.begin_period(datetime.fromisoformat("2027-05-02T01:30:00+02:00"))
    assert (counter.starts_on, counter.counted) == (date(2027, 5, 1), 7)
    counter.begin_period(datetime.fromisoformat("2027-05-01T20:00:00-04:00"))
    assert (counter.starts_on, counter.counted) == (date(2027, 5, 2), 0)


def test_each_change_of_a_cap_is_recorded_once(project: Project, session: Session, key: ApiKey) -> None:
    set_caps(project, {"day": DOLLAR}, session=session, actor="user:alice")
    set_caps(project, {"day": DOLLAR}, session=session)
    set_caps(project, {"month": None}, key=key)
    set_caps(project, {"month": DOLLAR}, key=key)
    records = AuditRecord.objects.filter(action="change spending cap").order_by("created_at")
    assert [(record.session, record.detail) for record in records] == [
        (session.pk, {"period": "day", "limit": 1.0}),
        (None, {"period": "month", "limit": 1.0, "key": str(key.pk)}),
    ]


def test_the_first_call_of_a_new_period_counts_from_zero(project: Project, session: Session) -> None:
    set_caps(project, {"day": DOLLAR, "month": DOLLAR})
    reserve_call(session).settle(DOLLAR)
    with pytest.raises(CapReached):
        reserve_call(session)
    SpendingCounter.objects.filter(period="day").update(starts_on=date(2020, 1, 31))
    with pytest.raises(CapReached, match="a month"):
        reserve_call(session)
    SpendingCounter.objects.update(starts_on=date(2020, 1, 1))
    reserve_call(session).settle(5)
    assert {counter.counted for counter in SpendingCounter.objects.all()} == {5}
    assert {cap.counter.starts_on.year > 2020 for cap in project_caps(project)} == {True}


def test_a_fork_of_200_forks_needs_the_statements_of_one(project: Project, session: Session) -> None:
    newest = session
    for _ in range(200):
        forked = Session(project=project, forked_from=newest)
        forked.save(force_insert=True)
        newest = forked
    counts = []
    for each in (session, newest):
        reserve_call(each).settle(0)
        with CaptureQueriesContext(connection) as queries:
            reserve_call(each).settle(1)
            applicable_caps(each)
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert SpendingCounter.objects.get(session=session, period="day").counted == 2
