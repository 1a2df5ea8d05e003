"""With an Idempotency-Key, no long response is made while the transaction of the request is open."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse

from historyapp.api import entries, idempotency, responses
from historyapp.core.json import dump_json
from historyapp.models import IdempotencyKey, Session
from historyapp.services import idempotency as keys
from historyapp.services import strategy_comparisons
from historyapp.services.idempotency import KEPT_CHARACTERS
from historyapp.wire.entries import UnpairedOut
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem

KEY = {"Idempotency-Key": "a-key"}
TEXT = "word " * 500
UNPAIRED = {"kind": "tool_results", "results": [{"status": "success", "tool_call_id": "x"}]}


@pytest.fixture
def in_transaction(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The JSON that is made in transactions. Responses of 1,000 characters are too long to keep."""
    made = list[str]()

    def dump(value: Any) -> str:
        dumped = dump_json(value)
        if connection.in_atomic_block:
            made.append(dumped)
        return dumped

    monkeypatch.setattr(responses, "dump_json", dump)
    for module in (idempotency, keys):
        monkeypatch.setattr(module, "KEPT_CHARACTERS", 1000)
    return made


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["system_instruction", "memory_notebook"])
def test_a_fork_with_long_texts(run: Agent, in_transaction: list[str], kind: str) -> None:
    text = {"text": TEXT} if kind == "system_instruction" else {"content": TEXT}
    run.post("/entries", {"entries": [{"kind": kind, **text}]})
    forked = run.post("/forks", {}, KEY)
    assert (forked.status, TEXT in forked.body.values()) == (201, True)
    assert in_transaction == []
    assert_problem(run.post("/forks", {}, KEY), 409, "too long to keep")
    assert Session.objects.count() == 2
    assert IdempotencyKey.objects.get().sessions == forked["id"]


@pytest.mark.django_db(transaction=True)
def test_a_recorded_context(run: Agent, in_transaction: list[str]) -> None:
    run.post("/entries", {"entries": [ask(TEXT)]})
    recorded = run.post("/contexts", {}, KEY)
    assert (recorded.status, TEXT in str(recorded.body)) == (201, True)
    assert run.get(f"/snapshots/{recorded['snapshot']}")["id"] == recorded["snapshot"]
    assert in_transaction == []
    assert_problem(run.post("/contexts", {}, KEY), 409, "too long to keep")


@pytest.mark.django_db(transaction=True)
def test_many_unpaired_results(
    run: Agent, in_transaction: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "_MAX_KEPT_UNPAIRED", 3)
    run.step()
    appended = run.post("/entries", {"entries": [UNPAIRED] * 5}, KEY)
    assert [result["position"] for result in appended["unpaired"]] == appended["positions"]
    assert in_transaction == []
    assert_problem(run.post("/entries", {"entries": [UNPAIRED] * 5}, KEY), 409, "too long to keep")
    assert run.get()["head"] == appended["head"]


def test_a_response_with_many_unpaired_results_would_be_too_long_to_keep() -> None:
    shortest = responses.fill_json(
        UnpairedOut, None, position=1, index=0, tool_call_id="", reason="unknown", step=None
    )
    assert len(dump_json(shortest)) * entries._MAX_KEPT_UNPAIRED > KEPT_CHARACTERS


@pytest.mark.django_db(transaction=True)
def test_the_response_to_a_new_comparison_searches_no_steps(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs end at once if the only step is in flight, and then the names were searched."""
    run.act()
    body = {
        "from_step": 1,
        "to_step": 1,
        "sides": [{"strategy": "simple_extract"}, {"strategy": "structured"}],
    }
    searched, search = list[bool](), strategy_comparisons.strategy_recall

    def spy(*arguments: Any) -> Any:
        searched.append(connection.in_atomic_block)
        return search(*arguments)

    monkeypatch.setattr(strategy_comparisons, "strategy_recall", spy)
    started = run.post("/comparisons", body, KEY)
    assert (started.status, started["recall"], started["ended"], searched) == (202, None, False, [])
    read = run.get(f"/comparisons/{started['id']}")
    assert (read["ended"], read["recall"] is None, searched) == (True, False, [False])


def test_a_stored_response_names_the_sessions_of_its_request(alice: Agent) -> None:
    created = alice.post("/sessions", {"metadata": {"id": str(UUID(int=7))}}, KEY)
    assert IdempotencyKey.objects.get().sessions == created["id"]
    body = {"sessions": [created["id"]], "budgets": [2000]}
    started = alice.post("/evaluations", body, {"Idempotency-Key": "evaluate"})
    assert IdempotencyKey.objects.get(key="evaluate").sessions == created["id"]
    alice.post(f"/evaluations/{started['id']}/cancellations", {}, {"Idempotency-Key": "cancel"})
    assert IdempotencyKey.objects.get(key="cancel").sessions == created["id"]


def test_the_response_to_a_long_read_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with 15 MB of letters outside of ASCII took 1 GB: its JSON has 360 MB, three times at once."""
    content = {"a": "é" * 200_000, "b": [1, None]}
    whole = responses._read_response(content)
    monkeypatch.setattr(responses, "LONG", -1)
    streamed = responses._read_response(content)
    assert isinstance(whole, HttpResponse)
    assert isinstance(streamed, StreamingHttpResponse)
    parts = [len(part) for part in streamed]
    assert streamed["Content-Type"] == whole["Content-Type"]
    assert (sum(parts), max(parts) < len(whole.content) // 2) == (len(whole.content), True)
    assert b"".join(responses._read_response(content)) == whole.content
