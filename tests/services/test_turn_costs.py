"""The costs of all turns are together those of the run, whatever its length, its forks and its takes."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.overview import figures
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.visibility import Visibility
from historyapp.services.append import append
from historyapp.services.figures.run_figures import count_run
from historyapp.services.ledger import ledger_of
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.turn_costs import TurnCost, turn_costs
from tests.services.drafts import ask, draft

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def billed(sent: int, output: int = 10, **metadata: Any) -> EntryDraft:
    usage = {"input_tokens": sent, "output_tokens": output}
    return draft(ModelOutput(text="ok"), model=metadata.pop("model", "gpt-5"), usage=usage, **metadata)


def with_turns(project: Project, count: int) -> Session:
    """A step without a turn, then turns of two steps, with more tokens from turn to turn."""
    session = create_session(project)
    drafts = [billed(50)]
    for number in range(1, count + 1):
        drafts += [ask(f"input {number}"), billed(100 * number), billed(100 * number)]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session


def costs(session: Session, as_of: int | None = None, visible: Visibility | None = None) -> list[TurnCost]:
    history = History(session, as_of, visible) if visible else History(session, as_of)
    return turn_costs(history, count_run(history))


def shown(turns: list[TurnCost]) -> list[tuple[int, int, int, int]]:
    return [(turn.turn, turn.first, turn.last, turn.calls.usage.input) for turn in turns]


def test_each_turn_has_its_steps_and_they_add_up_to_the_run(project: Project) -> None:
    session = with_turns(project, 3)
    turns = costs(session)
    assert shown(turns) == [(0, 1, 1, 50), (1, 2, 3, 200), (2, 4, 5, 400), (3, 6, 7, 600)]
    assert [turn.input_preview for turn in turns] == ["", "input 1", "input 2", "input 3"]
    ledger = ledger_of(History(session))
    assert sum(turn.calls.usage.output for turn in turns) == ledger.totals.output == 70
    assert abs(sum(turn.calls.money or 0 for turn in turns) - ledger.money.micros) <= len(turns)
    assert shown(costs(session, as_of=6)) == [(0, 1, 1, 50), (1, 2, 3, 200), (2, 4, 4, 200)]
    assert not any(turn.input_preview for turn in costs(session, visible=Visibility(inputs=False)))


def test_forks_and_rewound_runs_have_the_turns_of_their_history(project: Project) -> None:
    session = with_turns(project, 2)
    child = fork(project, session.pk, at_position=6)
    rewind(project, session.pk, Target(to_step=3))
    for one, sent in ((session, 7_000), (child, 8_000)):
        append(project, one.pk, [ask("other"), billed(sent)])
        one.refresh_from_db()
    assert shown(costs(session)) == [(0, 1, 1, 50), (1, 2, 3, 200), (2, 4, 4, 7_000)]
    assert shown(costs(child)) == [(0, 1, 1, 50), (1, 2, 3, 200), (2, 4, 4, 200), (3, 5, 5, 8_000)]


def test_turns_after_the_first_ones_are_one_row(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_TURNS", 2)
    (*_, second, rest) = costs(with_turns(project, 5))
    assert (second.turn, second.last, second.input_preview) == (2, 5, "input 2")
    assert (rest.turn, rest.last_turn, rest.first, rest.last, rest.input_preview) == (3, 5, 6, 11, "")
    assert rest.calls.usage.input == 2 * (300 + 400 + 500)


def test_turns_that_are_not_counted_yet_are_one_row(project: Project) -> None:
    history = History(with_turns(project, 4))
    counted = count_run(history)
    counted.figures.steps, counted.figures.turns, counted.figures.turn_count = 3, [2], 1
    assert shown(turn_costs(history, counted)) == [(0, 1, 1, 50), (1, 2, 3, 200), (2, 4, 9, 1_800)]


def test_a_turn_with_an_unknown_price_has_an_unknown_cost(project: Project) -> None:
    session = create_session(project)
    cost_only = draft(ModelOutput(text="ok"), cost=0.5)
    first = [ask("a"), billed(900), billed(900, model="my-own"), ask("b"), billed(900), cost_only]
    append(project, session.pk, [*first, ask("c"), draft(ModelOutput(text="ok"))])
    session.refresh_from_db()
    unknown, known, none = [turn.calls for turn in costs(session)]
    assert (unknown.money, unknown.without_usage, unknown.billed) == (None, 0, 2)
    assert (known.without_usage, known.billed) == (1, 2)
    assert known.money is not None
    assert known.money > 500_000
    assert (none.money, none.without_usage, none.billed) == (0, 1, 0)


def test_turns_add_up_to_a_run_whose_cost_was_reported_for_some_calls(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("a"), billed(1_000_000), ask("b"), billed(1_000, cost=0.5)])
    session.refresh_from_db()
    assert [turn.calls.money for turn in costs(session)] == [None, 500_000]
    assert ledger_of(History(session)).money.micros == 500_000


def test_without_totals_by_model_nothing_is_said(project: Project) -> None:
    session = with_turns(project, 2)
    totals = session.live_tail.totals
    for models in ({}, {"gpt-5": totals.models["gpt-5"]._replace(input=0)}):
        history = History(session)
        history.tail = history.tail._replace(totals=totals._replace(models=models))
        assert turn_costs(history, count_run(history)) == []


def test_many_turns_take_few_queries(project: Project) -> None:
    history = History(with_turns(project, 60))
    counted = count_run(history)
    with CaptureQueriesContext(connection) as queries:
        assert len(turn_costs(history, counted)) == 61
    assert len(queries) <= 4
