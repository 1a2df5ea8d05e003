"""Caps are hard: what calls may cost is reserved before they begin, by however many workers."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest
from django.db import connection

from historyapp.core.usage import Usage
from historyapp.llm.deltas import RestartedDelta
from historyapp.models import Project, SpendingCap
from historyapp.services.caps import caps_of, reserve, set_caps, short_connection
from historyapp.services.prices import price_list
from historyapp.wire.problems import CapReached
from tests.llm.loopback import Loopback
from tests.services.compression.conftest import Compress, Record, _server, compress, loopback, record

__all__ = ["_server", "compress", "loopback", "record"]
DOLLAR = 1_000_000


def spent(project: Project) -> int:
    return SpendingCap.objects.get(project=project, period="day").spent


def test_a_call_counts_with_its_estimate_and_then_with_its_cost(project: Project) -> None:
    set_caps(project, {"day": DOLLAR, "month": 2 * DOLLAR})
    reservation = reserve(project.pk, "gpt-5", 1000, 500)
    price = price_list().of("gpt-5")
    assert price is not None
    assert spent(project) == price.cost(Usage(1300, 500))
    reservation.settle(123)
    assert [cap.spent for cap in caps_of(project)] == [123, 123]


def test_a_call_whose_cost_stays_unknown_keeps_its_estimate(project: Project) -> None:
    set_caps(project, {"day": DOLLAR})
    reservation = reserve(project.pk, "gpt-5", 1000, 500)
    before = spent(project)
    reservation.settle(None)
    assert spent(project) == before > 0


def test_a_refusal_says_which_cap_and_when_it_ends(project: Project) -> None:
    set_caps(project, {"day": 10 * DOLLAR, "month": DOLLAR // 1000})
    with pytest.raises(
        CapReached, match=r"\$0.00 a month.*The next month begins at 20\d\d-\d\d-01 00:00 UTC"
    ) as caught:
        reserve(project.pk, "gpt-5", 1000, 5000)
    assert (caught.value.fields["period"], caught.value.fields["limit"]) == ("month", 0.001)
    assert spent(project) == 0, "the daily cap counts nothing of a refused call"


def test_a_model_without_a_price_is_refused_only_where_there_is_a_cap(project: Project) -> None:
    assert not reserve(project.pk, "openai:own", 1000, 500).is_capped
    set_caps(project, {"day": DOLLAR})
    with pytest.raises(CapReached, match="PLAYHEAD_PRICES"):
        reserve(project.pk, "openai:own", 1000, 500)


def test_an_attempt_after_a_broken_one_is_reserved_too(project: Project) -> None:
    set_caps(project, {"day": DOLLAR})
    reservation = reserve(project.pk, "gpt-5", 1000, 500)
    once = spent(project)
    list(reservation.watch([RestartedDelta(attempt=2, reason="it broke")]))
    assert spent(project) == 2 * once
    reservation.settle(7)
    assert spent(project) == once + 7


def test_a_new_period_begins_at_zero_and_an_old_call_does_not_count_in_it(project: Project) -> None:
    set_caps(project, {"day": DOLLAR})
    reservation = reserve(project.pk, "gpt-5", 1000, 500)
    (cap,) = caps_of(project, datetime(2040, 1, 31, 12, tzinfo=UTC))
    assert (cap.spent, cap.starts_on) == (0, date(2040, 1, 31))
    cap.save()
    reservation.settle(5)
    assert spent(project) == 0


def test_a_month_ends_where_the_next_begins() -> None:
    cap = SpendingCap(period="month", limit=1, starts_on=date(2027, 12, 1))
    assert cap.ends_at == datetime(2028, 1, 1, tzinfo=UTC)
    cap.begin_period(datetime(2027, 11, 5, tzinfo=UTC))
    assert cap.starts_on == date(2027, 12, 1), "a clock that was set back starts no period twice"


@pytest.mark.django_db(transaction=True)
def test_many_workers_together_stay_below_the_cap(project: Project) -> None:
    price = price_list().of("gpt-5")
    assert price is not None
    each = price.cost(Usage(1300, 500))
    set_caps(project, {"day": 10 * each + each // 2})

    def attempt(_: int) -> bool:
        with short_connection():
            try:
                reserve(project.pk, "gpt-5", 1000, 500)
            except CapReached:
                return False
            return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 10
    assert spent(project) == 10 * each
    connection.close()


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
    assert spent(project) == run.cost
    assert spent(project) > 0
