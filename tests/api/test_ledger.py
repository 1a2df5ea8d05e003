"""The cost of a session, over HTTP."""

from typing import Any

import pytest

from historyapp.core.prices import load_prices
from historyapp.core.usage import MAX_MODELS
from historyapp.models import Session
from historyapp.services.projections import rebuild
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem

OPENAI = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 600},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
}
ANTHROPIC = {
    "input_tokens": 100,
    "cache_read_input_tokens": 700,
    "cache_creation_input_tokens": 200,
    "output_tokens": 30,
}


def answered(usage: Any, **metadata: Any) -> dict[str, Any]:
    return {"kind": "model_output", "text": "ok", "metadata": {"usage": usage, **metadata}}


@pytest.fixture
def spent(run: Agent) -> Agent:
    run.append(
        ask(),
        answered(OPENAI, model="gpt-5", estimated_tokens=990, counted_tokens=1001),
        answered(ANTHROPIC, model="claude-opus-4-5"),
        answered({"prompt_tokens": 10, "completion_tokens": 1}, model="llama-9"),
        answered(None),
    )
    return run


def test_the_parts_of_the_input_add_up_for_every_provider(spent: Agent) -> None:
    usage = spent.get("/ledger")["usage"]
    assert usage == {
        "input": 2010, "uncached": 510, "cache_read": 1300, "cache_write": 200, "output": 81, "reasoning": 20,
    }  # fmt: skip
    assert usage["uncached"] + usage["cache_read"] + usage["cache_write"] == usage["input"]


def test_estimated_counted_and_billed_tokens_are_listed(spent: Agent) -> None:
    ledger = spent.get("/ledger").body
    assert ledger["tokens"] == {"estimated": 990, "estimated_billed": 1000, "counted": 1001, "billed": 2010}
    assert (ledger["steps"], ledger["calls"]) == (4, 3)


def test_costs_are_by_model_at_dated_prices_and_an_unknown_cost_is_not_zero(spent: Agent) -> None:
    ledger = spent.get("/ledger").body
    prices = {model["model"]: model["money"] for model in ledger["models"]}
    assert prices == {
        "gpt-5": pytest.approx((400 * 1.25 + 600 * 0.125 + 50 * 10) / 1e6, abs=1e-6),
        "claude-opus-4-5": pytest.approx((100 * 5 + 700 * 0.5 + 200 * 6.25 + 30 * 25) / 1e6, abs=1e-6),
        "llama-9": "unknown",
    }
    assert ledger["money"] == pytest.approx(prices["gpt-5"] + prices["claude-opus-4-5"])
    assert ledger["unknown_models"] == ["llama-9"]
    assert ledger["prices_as_of"] == load_prices().as_of


def test_outputs_without_a_model_count_for_the_model_of_the_session(spent: Agent) -> None:
    spent.append(answered({"input_tokens": 1_000_000}))
    assert spent.get("/ledger")["unknown_models"] == ["llama-9", ""]
    spent.patch("", {"model": "gpt-5"})
    ledger = spent.get("/ledger").body
    assert ledger["unknown_models"] == ["llama-9"]
    assert ledger["models"][0]["calls"] == 2


def test_the_reported_cost_is_listed_separately(run: Agent) -> None:
    run.append(answered(None, model="gpt-5", cost=0.25))
    ledger = run.get("/ledger").body
    assert (ledger["reported"], ledger["money"]) == (0.25, 0.0)


def test_a_ledger_covers_live_steps_as_of_a_position(spent: Agent) -> None:
    assert spent.get("/ledger?as_of=2")["usage"]["input"] == 1000
    spent.post("/rewinds", {"episodes": 3})
    assert spent.get("/ledger")["usage"]["input"] == 1000
    assert spent.get("/ledger?as_of=5")["usage"]["input"] == 2010
    assert_problem(spent.get("/ledger?as_of=99"), 422)


def test_a_session_without_model_calls_costs_nothing(run: Agent) -> None:
    ledger = run.get("/ledger").body
    assert (ledger["calls"], ledger["money"], ledger["models"]) == (0, 0.0, [])
    assert run.get("/ledger/steps").body == {"items": [], "next": None}


def test_all_pages_of_steps_show_the_same_state(spent: Agent) -> None:
    first = spent.get("/ledger/steps?limit=3").body
    spent.append(answered(OPENAI, model="gpt-5"))
    second = spent.get(f"/ledger/steps?limit=3&cursor={first['next']}").body
    steps = [*first["items"], *second["items"]]
    assert [step["number"] for step in steps] == [1, 2, 3, 4]
    assert [step["input"] for step in steps] == [1000, 1000, 10, 0]
    assert [step["money"] for step in steps][2:] == ["unknown", None]
    assert steps[0]["estimated"] == 990
    assert sum(step["input"] for step in steps) == 2010
    assert second["next"] is None


def test_the_size_of_entries_stays_bounded_with_many_models(run: Agent) -> None:
    run.append(*[answered({"input_tokens": 1}, model=f"model-{number}") for number in range(40)])
    ledger = run.get("/ledger").body
    assert ledger["usage"]["input"] == 40
    assert len(ledger["models"]) == MAX_MODELS + 1


def test_rebuilding_gives_the_same_ledger(spent: Agent) -> None:
    spent.post("/rewinds", {"episodes": 1})
    spent.append(answered(OPENAI, model="gpt-5"))
    before = spent.get("/ledger").body
    assert rebuild(Session.objects.get()).differences == []
    assert spent.get("/ledger").body == before


def test_a_stranger_gets_no_ledger(spent: Agent, charlie: Agent, session_id: str) -> None:
    assert_problem(charlie.get(f"/sessions/{session_id}/ledger"), 404)
    assert_problem(charlie.get(f"/sessions/{session_id}/ledger/steps"), 404)
