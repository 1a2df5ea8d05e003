"""Single requests that are longer than a limit of their model have its higher prices."""

import pytest

from historyapp.core.entries import ModelOutput
from historyapp.models import Project
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures.run_figures import count_run
from historyapp.services.ledger import step_accounts
from historyapp.services.overview import most_expensive_steps
from historyapp.services.recorded.requests import billed_cost, output_of_step
from historyapp.services.sessions import create_session
from tests.services.drafts import ask, draft


@pytest.mark.django_db
def test_the_cost_of_a_long_step_has_the_price_of_long_requests() -> None:
    """Each figure of a step had the price of short requests, half as much."""
    project = Project.objects.create(name="Alice's")
    usage = {"input_tokens": 300_000, "output_tokens": 10}
    output = draft(ModelOutput(text="ok"), model="gpt-5.4", usage=usage)
    session = create_session(project)
    append(project, session.pk, [ask("a"), output])
    session.refresh_from_db()
    history, micros = History(session), 300_000 * 5 + 10 * 22.5
    assert [step.money for step in step_accounts(history, 1, 1)] == [micros]
    expensive = most_expensive_steps(count_run(history).figures, session.model)
    assert [step.micros for step in expensive] == [micros]
    assert billed_cost(output_of_step(history, 1), "gpt-5.4") == micros
