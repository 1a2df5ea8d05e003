"""Evaluations over the API: what is requested, how they progress, and what they find."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.evaluators import work_on_evaluations
from historyapp.models import Evaluation, Project
from historyapp.models.evaluations import MAX_RUNNING
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.services.evaluations.lookups import record_lookups


@pytest.fixture
def session(alice: Agent) -> str:
    return str(record_lookups(Project.objects.get(name="Alice's")).pk)


def body(*sessions: str, **fields: Any) -> dict[str, Any]:
    return {"sessions": sessions, "budgets": [2000, 300], "policies": ["live", "budgeted"], **fields}


def test_an_evaluation_is_followed_until_its_results(alice: Agent, session: str) -> None:
    started = alice.post("/evaluations", body(session))
    assert (started.status, started["state"], started["progress"]) == (202, "running", 0.0)
    assert (started["waiting"], started["results"], started["prices_as_of"]) == (1, None, None)
    work_on_evaluations()
    read = alice.get(f"/evaluations/{started['id']}")
    assert (read["state"], read["progress"], read["done"]) == ("finished", 1.0, 1)
    results = read["results"]
    assert (results["sessions"], results["steps"], results["drawn"]) == (1, 3, "steps")
    assert results["cautions"][0].startswith("Only one session was measured.")
    choices = {(one["policy"], one["max_tokens"]): one for one in results["choices"]}
    assert list(choices) == [("live", 300), ("budgeted", 300), ("live", 2000), ("budgeted", 2000)]
    assert choices["live", 2000]["recall"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert choices["live", 300]["behind"]["mean"] == -1.0
    assert 0 < choices["live", 300]["money"] < choices["live", 2000]["money"] < 0.001
    chosen = results["recommendation"]
    assert choices[chosen["policy"], chosen["max_tokens"]]["recall"]["mean"] == 1.0
    (item,) = read["items"]
    assert (item["session"], item["title"], item["model"]) == (session, "lookups", "gpt-5-mini")
    assert [one["recall"] for one in item["figures"]][::2] == [0.0, 1.0]


def test_evaluations_are_listed_newest_first(alice: Agent, charlie: Agent, session: str) -> None:
    ids = [alice.post("/evaluations", body(session))["id"] for _ in range(3)]
    page = alice.get("/evaluations?limit=2")
    assert [one["id"] for one in page["items"]] == ids[:0:-1]
    assert (page["items"][0]["total"], page["items"][0]["waiting"]) == (1, 1)
    rest = alice.get(f"/evaluations?limit=2&cursor={page['next']}")
    assert ([one["id"] for one in rest["items"]], rest["next"]) == (ids[:1], None)
    assert charlie.get("/evaluations")["items"] == []


def test_a_list_counts_only_the_sessions_of_its_page(alice: Agent, session: str) -> None:
    ids = [alice.post("/evaluations", body(session))["id"].replace("-", "") for _ in range(3)]
    with CaptureQueriesContext(connection) as captured:
        assert alice.get("/evaluations?limit=1")["items"][0]["waiting"] == 1
    queries = [query["sql"].replace("-", "") for query in captured if "evaluatedsession" in query["sql"]]
    # The page's evaluation, and the next one, which shows that there is another page.
    assert [[id in sql for id in ids] for sql in queries] == [[False, True, True]]


def test_a_cancelled_evaluation_stops(alice: Agent, session: str) -> None:
    address = f"/evaluations/{alice.post('/evaluations', body(session))['id']}"
    assert alice.post(f"{address}/cancellations", {})["state"] == "cancelled"
    work_on_evaluations()
    assert alice.get(address)["items"][0]["measured"] == 0
    assert alice.post(f"{address}/cancellations", {}).status == 409


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"sessions": []}, "sessions"),
        ({"sessions": ["x"]}, "UUID"),
        ({"sessions": [str(uuid4())] * 101}, "100"),
        ({"sessions": [str(uuid4()), str(uuid4())]}, "and 1 more are missing. Name sessions of one project."),
        ({"budgets": []}, "budgets"),
        ({"budgets": [1, 2, 3, 4, 5]}, "budgets"),
        ({"budgets": [100]}, "A budget must be from 200 to 2,000,000 tokens; this one has 100."),
        ({"policies": ["best"]}, "There is no policy 'best'. Use one of budgeted, episodic"),
        ({"model": 1}, "model"),
        ({"odd": 1}, "odd"),
    ],
)
def test_invalid_requests_are_refused(alice: Agent, session: str, wrong: dict[str, Any], detail: str) -> None:
    refused = alice.post("/evaluations", {**body(session), **wrong})
    assert refused.status == 422
    assert detail in refused["detail"]
    assert not Evaluation.objects.exists()


def test_a_stranger_cannot_evaluate_the_sessions(alice: Agent, charlie: Agent, session: str) -> None:
    refused = charlie.post("/evaluations", body(session))
    assert (refused.status, refused["missing"]) == (422, [session])
    address = f"/evaluations/{alice.post('/evaluations', body(session))['id']}"
    assert charlie.get(address).status == 404
    assert charlie.post(f"{address}/cancellations", {}).status == 404
    reader = Agent(key_for(Project.objects.get(name="Alice's"), "reader", ("read",)))
    assert reader.get(address).status == 200
    assert reader.post("/evaluations", body(session)).status == 403


def test_the_number_of_running_evaluations_is_limited(alice: Agent, session: str) -> None:
    for _ in range(MAX_RUNNING):
        assert alice.post("/evaluations", body(session)).status == 202
    refused = alice.post("/evaluations", body(session))
    assert (refused.status, "5 evaluations" in refused["detail"]) == (409, True)
