"""The possible cost of a model call is reserved before it starts, by any number of threads and processes."""

import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection

from historyapp.core.usage import Usage
from historyapp.llm.deltas import TextDelta
from historyapp.llm.errors import LimitReached, ModelCallError, ProviderUnreachable, TimedOut
from historyapp.models import Project, Session, SpendingCounter, SpendingReservation
from historyapp.services.caps import project_caps, set_caps
from historyapp.services.connections import short_connection
from historyapp.services.prices import price_list
from historyapp.services.reservations import Reservation, reserve
from historyapp.services.sessions import create_session
from historyapp.services.spending import Payer
from historyapp.wire.problems import CapReached
from tests.llm.loopback import Loopback
from tests.services.compression.conftest import Compress, Record, compress, loopback, loopback_server, record

__all__ = ["compress", "loopback", "loopback_server", "record"]
DOLLAR = 1_000_000


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


def counted(project: Project) -> int:
    return SpendingCounter.objects.of_project(project.pk).get(period="day").counted


def reserve_call(session: Session) -> Reservation:
    return reserve(Payer(session.project_id, session.pk), "gpt-5", 1000, 500)


def estimate() -> int:
    price = price_list().of("gpt-5")
    assert price is not None
    return price.cost(Usage(1300, 500))


def test_a_call_counts_with_its_estimate_and_then_with_its_cost(project: Project, session: Session) -> None:
    reservation = reserve_call(session)
    assert counted(project) == estimate()
    reservation.settle(123)
    assert {counter.counted for counter in SpendingCounter.objects.all()} == {123}
    assert not SpendingReservation.objects.exists()


def test_a_long_call_counts_at_the_prices_of_long_requests(project: Project, session: Session) -> None:
    reservation = reserve(Payer(session.project_id, session.pk), "gpt-5.4", 250_000, 1_000)
    assert counted(project) == 325_000 * 5 + 1_000 * 22.5, "30 % more than our count: above 272,000 tokens"
    price = price_list().of("gpt-5.4")
    assert price is not None
    assert reservation.believed(price, Usage(300_000, 100)) == 300_000 * 5 + 100 * 22.5
    assert reservation.believed(price, Usage(260_000, 100)) == 260_000 * 2.5 + 100 * 15


def test_a_call_whose_cost_stays_unknown_keeps_its_estimate(project: Project, session: Session) -> None:
    reserve_call(session).settle(None)
    assert counted(project) == estimate()
    assert not SpendingReservation.objects.exists()


def test_a_refusal_names_the_cap_and_when_it_ends(project: Project, session: Session) -> None:
    set_caps(project, {"day": 10 * DOLLAR, "month": DOLLAR // 1000})
    with pytest.raises(
        CapReached, match=r"\$0.001 a month.*The next month begins at 20\d\d-\d\d-01 00:00 UTC"
    ) as caught:
        reserve_call(session)
    assert (caught.value.fields["period"], caught.value.fields["limit"]) == ("month", 0.001)
    assert counted(project) == 0, "the daily cap counts nothing of a refused call"


def test_a_refusal_shows_amounts_below_a_cent(project: Project, session: Session) -> None:
    set_caps(project, {"day": 50})
    reserve(Payer(project.pk, session.pk), "gpt-5-nano", 100, 50).settle(42)
    with pytest.raises(CapReached, match=r"\$0.00005 a day and has spent \$0.000042.*cost \$0.000026\."):
        reserve(Payer(project.pk, session.pk), "gpt-5-nano", 100, 50)


def test_a_model_without_a_price_is_refused_only_if_there_is_a_cap(
    project: Project, session: Session
) -> None:
    payer = Payer(project.pk, session.pk)
    assert not reserve(payer, "openai:own", 1000, 500).is_capped
    set_caps(project, {"day": DOLLAR}, session=session)
    with pytest.raises(CapReached, match="PLAYHEAD_PRICES") as caught:
        reserve(payer, "openai:own", 1000, 500)
    assert caught.value.fields["session"] == str(session.pk)


@pytest.mark.parametrize(
    ("failure", "is_paid"),
    [
        (TimedOut("It was silent.", provider="OpenAI"), True),
        (ProviderUnreachable("It broke.", provider="OpenAI"), True),
        (LimitReached("Too many.", provider="OpenAI"), False),
    ],
)
def test_an_attempt_after_one_that_may_be_billed_is_reserved_too(
    project: Project, session: Session, failure: ModelCallError, is_paid: bool
) -> None:
    reservation = reserve_call(session)
    reservation.retry(failure, 0)
    assert counted(project) == (2 if is_paid else 1) * estimate()
    reservation.settle(7)
    assert counted(project) == is_paid * estimate() + 7


def test_an_attempt_that_was_never_sent_costs_nothing(project: Project, session: Session) -> None:
    reservation, failure = reserve_call(session), ProviderUnreachable("No route.", provider="OpenAI")
    failure.never_sent = True
    reservation.retry(failure, 0)
    assert counted(project) == estimate()
    reservation.fail(failure)
    assert counted(project) == 0


def test_an_attempt_after_the_first_words_is_reserved_after_any_fault(
    project: Project, session: Session
) -> None:
    reservation = reserve_call(session)
    list(reservation.watch([TextDelta(text="All")]))
    reservation.retry(LimitReached("Too many.", provider="OpenAI"), 0)
    assert counted(project) == 2 * estimate()
    reservation.fail(LimitReached("Too many.", provider="OpenAI"))
    assert counted(project) == estimate(), "the second attempt was refused, the first is paid for"


def test_a_retry_that_does_not_fit_is_refused_and_the_attempt_before_it_stays_counted(
    project: Project, session: Session
) -> None:
    set_caps(project, {"day": 2 * estimate() - 1})
    reservation = reserve_call(session)
    with pytest.raises(CapReached) as refusal:
        reservation.retry(TimedOut("It was silent.", provider="OpenAI"), 0)
    reservation.fail(refusal.value)
    assert counted(project) == estimate()


def test_another_attempt_needs_the_caps_that_apply_when_it_is_sent(
    project: Project, session: Session
) -> None:
    set_caps(project, {"day": estimate()})
    reservation = reserve_call(session)
    reservation.check()
    set_caps(project, {"day": estimate() - 1})
    with pytest.raises(CapReached, match="The project may spend"):
        reservation.check()


def test_another_attempt_without_a_known_price_is_refused_once_there_is_a_cap(
    project: Project, session: Session
) -> None:
    reservation = reserve(Payer(project.pk, session.pk), "openai:own", 1000, 500)
    reservation.check()
    set_caps(project, {"day": DOLLAR})
    with pytest.raises(CapReached, match="PLAYHEAD_PRICES"):
        reservation.check()


def test_an_attempt_stays_counted_if_the_database_fails_before_its_retry(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = reserve_call(session)
    monkeypatch.setattr(Reservation, "add_attempt", Mock(side_effect=OperationalError("It is stopped.")))
    with pytest.raises(OperationalError) as fault:
        reservation.retry(TimedOut("It was silent.", provider="OpenAI"), 0)
    reservation.fail(fault.value)
    assert counted(project) == estimate()


def attempts(payer: Payer, count: int) -> int:
    """The number of calls that were allowed. Every second call is settled at its full estimate."""
    made = 0
    for number in range(count):
        with short_connection():
            try:
                reservation = reserve(payer, "gpt-5", 1000, 500)
            except CapReached:
                continue
            made += 1
            if number % 2:
                reservation.settle(reservation.attempt_cost)
    return made


@pytest.mark.django_db(transaction=True)
def test_many_threads_together_spend_exactly_the_cap(project: Project) -> None:
    payers = [Payer(project.pk, create_session(project).pk) for _ in range(4)]
    set_caps(project, {"day": 10 * estimate()})
    connection.close()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempts, payers * 2, [5] * 8)) == 10
    (cap,) = project_caps(project)
    assert (cap.spent + cap.reserved, cap.left) == (10 * estimate(), 0)


@pytest.mark.django_db(transaction=True)
def test_two_processes_together_spend_exactly_the_cap(project: Project, session: Session) -> None:
    set_caps(project, {"month": 11 * estimate()}, session=session)
    connection.close()  # a process has connections of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests are idle
        with multiprocessing.get_context("fork").Pool(2) as pool:
            made = pool.starmap(attempts, [(Payer(project.pk, session.pk), 8)] * 2)
    assert sum(made) == 11
    assert min(made) > 0, "both have spent"
    assert counted(project) == 11 * estimate()


@pytest.mark.django_db(transaction=True)
def test_a_run_ends_at_the_cap_and_says_so(
    project: Project, record: Record, compress: Compress, loopback: Loopback
) -> None:
    session = record(12)
    set_caps(project, {"day": 1})
    run = compress(session)
    assert (run.state, run.calls) == ("failed", 0)
    assert "The next day begins at" in run.note
    assert loopback.requests == []


@pytest.mark.django_db(transaction=True)
def test_a_run_below_the_cap_counts_what_it_cost(
    project: Project, record: Record, compress: Compress, loopback: Loopback
) -> None:
    session = record(8)
    set_caps(project, {"day": DOLLAR})
    run = compress(session)
    assert run.state == "succeeded"
    assert counted(project) == run.cost
    assert counted(project) > 0
    assert not SpendingReservation.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_response_is_kept_if_its_cost_cannot_be_stored(
    project: Project,
    record: Record,
    compress: Compress,
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is paid for. The reserved maximum stays counted."""
    session = record(8)
    monkeypatch.setattr(SpendingReservation, "delete", locked)
    run = compress(session)
    assert (run.state, run.failed, run.calls) == ("succeeded", 0, len(loopback.requests))
    assert SpendingReservation.objects.count() == run.calls
    assert run.cost is not None
    assert counted(project) > run.cost
    assert "The reserved maximum of a model call" in caplog.text


def locked(*_: object) -> None:
    raise OperationalError("database is locked")
