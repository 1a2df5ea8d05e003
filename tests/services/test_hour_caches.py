"""Tokens that are written to a cache for an hour cost more than those for five minutes, in every figure."""

from typing import Any

import pytest

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.projection import Totals
from historyapp.core.run_costs import money_of
from historyapp.models import CountedSession, Entry, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures.day_figures import count_part
from historyapp.services.figures.group_figures import GroupOrder
from historyapp.services.figures.project_figures import FiguresQuery, grouped
from historyapp.services.figures.run_figures import count_run
from historyapp.services.ledger import ledger_of, step_accounts
from historyapp.services.overview import most_expensive_steps
from historyapp.services.prices import price_list
from historyapp.services.projections import rebuild
from historyapp.services.recorded.requests import billed_cost, output_of_step
from historyapp.services.sessions import create_session
from historyapp.services.turn_costs import turn_costs
from tests.services.drafts import ask, draft

pytestmark = pytest.mark.django_db
MODEL = "claude-opus-4-5"  # $5 for a million tokens, writes $6.25 and $10, reads $0.50, output $25


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def written(minutes: int, hour: int) -> EntryDraft:
    lifetimes = {"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour}
    usage: dict[str, Any] = {"input_tokens": 10, "output_tokens": 100, "cache_read_input_tokens": 1_000}
    usage |= {"cache_creation_input_tokens": minutes + hour, "cache_creation": lifetimes}
    return draft(ModelOutput(text="ok"), model=MODEL, usage=usage)


@pytest.fixture
def session(project: Project) -> Session:
    session = create_session(project)
    append(project, session.pk, [ask("a"), written(4_000, 0), ask("b"), written(0, 20_000)])
    session.refresh_from_db()
    return session


MINUTES_MICROS = 50 + 500 + 2_500 + 4_000 * 6.25
HOUR_MICROS = 50 + 500 + 2_500 + 20_000 * 10
MICROS = MINUTES_MICROS + HOUR_MICROS


def test_every_figure_has_the_price_of_an_hour(project: Project, session: Session) -> None:
    history = History(session)
    assert money_of(session.live_tail.totals, session.model, price_list()).micros == MICROS
    assert session.money == MICROS
    ledger = ledger_of(history)
    assert ledger.money.micros == sum(ledger.costs) == MICROS
    assert ledger.costs.cache_write == 4_000 * 6.25 + 20_000 * 10
    assert [step.money for step in step_accounts(history, 1, 2)] == [MINUTES_MICROS, HOUR_MICROS]
    counted = count_run(history)
    turns = [turn.calls.money for turn in turn_costs(history, counted)]
    assert turns == [MINUTES_MICROS, HOUR_MICROS]
    dearest = most_expensive_steps(counted.figures, session.model)
    assert [step.micros for step in dearest] == [HOUR_MICROS, MINUTES_MICROS]
    assert billed_cost(output_of_step(history, 2), MODEL) == HOUR_MICROS
    assert not count_part(project.pk, [session.pk])
    day = CountedSession.objects.get(pk=session.pk).began
    assert day
    by_model = grouped(project.pk, FiguresQuery(day, day), "model", GroupOrder("money")).listed
    assert by_model[MODEL].micros == MICROS


def test_entries_without_such_writes_are_stored_as_before(session: Session) -> None:
    first, second = Entry.objects.filter(kind="model_output").order_by("position")
    assert len(first.totals["models"][MODEL]) == 10
    assert second.totals["models"][MODEL][10:] == [20_000]
    assert Totals.load(first.totals).models[MODEL].cache_write_hour == 0


def test_a_rebuild_prices_entries_of_an_earlier_version_as_their_totals_do(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the last turn would cost as much as all earlier writes for an hour."""
    with monkeypatch.context() as patched:
        patched.setattr("historyapp.core.usage._FOR_HOUR", "unknown")
        session = create_session(project)
        append(project, session.pk, [ask("a"), written(0, 20_000)])
    append(project, session.pk, [ask("b"), written(0, 1_000)])
    report = rebuild(session)
    assert report.differences == []
    session.refresh_from_db()
    assert session.live_tail.totals.models[MODEL].cache_write_hour == 1_000
