"""The figures of a project over the API."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from historyapp.models import Project, ProjectDay
from historyapp.services.figures.feed import follow_changes
from tests.api.agent import Agent

USAGE: dict[str, Any] = {"model": "gpt-5", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}
TOOL: dict[str, Any] = {
    "kind": "model_output",
    "use_tool": {"name": "ls"},
    "created_at": "2026-03-02T10:00:00Z",
}
FAILED = {
    "kind": "tool_results",
    "results": [{"status": "error", "reason": "no"}],
    "created_at": "2026-03-02T10:00:02Z",
}
TWO: dict[str, Any] = {
    "kind": "model_output",
    "tool_calls": [{"id": id, "name": id, "arguments": {}} for id in "ab"],
    "created_at": "2026-03-03T10:00:00Z",
}


@pytest.fixture
def recorded(alice: Agent, session_id: str, settled: None) -> Agent:
    entries = [{**TOOL, "metadata": USAGE}, FAILED, {**TWO, "metadata": {**USAGE, "cost": 0.5}}]
    alice.post(f"/sessions/{session_id}/entries", {"entries": entries})
    follow_changes(lambda: False)
    return alice


def items(agent: Agent, query: str = "") -> dict[str | None, Any]:
    response = agent.get(f"/figures?from=2026-03-01&to=2026-03-31{query}")
    return {item["name"]: item for item in response["items"]}


def test_a_span_is_grouped_by_day_model_and_tool(recorded: Agent) -> None:
    days = items(recorded)
    assert list(days) == ["2026-03-02", "2026-03-03"]
    assert (days["2026-03-02"]["errors"], days["2026-03-02"]["seconds"]) == (1, 2.0)
    assert items(recorded, "&by=model")["gpt-5"]["steps"] == 2
    tools = items(recorded, "&by=tool")
    assert {name: tool["steps"] for name, tool in tools.items()} == {"ls": 1, None: 1}


def test_items_are_sorted_by_a_figure(recorded: Agent) -> None:
    days = ["2026-03-02", "2026-03-03"]
    assert list(items(recorded, "&sort=-money")) == days
    assert list(items(recorded, "&sort=money")) == days[::-1]
    assert list(items(recorded, "&by=tool&sort=-failure_rate")) == ["ls", None]
    assert list(items(recorded, "&by=tool&sort=failure_rate")) == [None, "ls"]


def test_costs_are_reported_or_computed_from_the_price_list(recorded: Agent) -> None:
    days = items(recorded)
    assert days["2026-03-02"]["money"] == 1.25
    assert days["2026-03-03"]["money"] == 0.5
    # The output of the first day is not reported. A reported cost may include it.
    assert [day["money_is_minimum"] for day in days.values()] == [True, False]


def test_tokens_without_a_known_price_are_counted(recorded: Agent, session_id: str) -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}
    call = {**TOOL, "metadata": {"model": "our-model", "usage": usage}}
    recorded.post(f"/sessions/{session_id}/entries", {"entries": [call]})
    follow_changes(lambda: False)
    for by in ("day", "agent", "tool"):
        response = recorded.get(f"/figures?from=2026-03-01&to=2026-03-31&by={by}")
        for figures in (
            response["total"],
            next(item for item in response["items"] if item["unpriced_tokens"]),
        ):
            assert (figures["unpriced_models"], figures["unpriced_tokens"]) == (["our-model"], 35)
            assert figures["money_is_minimum"] is True
    assert items(recorded, "&by=model")["gpt-5"]["unpriced_tokens"] == 0


def test_the_number_of_names_includes_those_that_are_not_listed(
    recorded: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.figures.project_figures.MAX_GROUPS", 1)
    response = recorded.get("/figures?from=2026-03-01&to=2026-03-31&by=tool&sort=-errors")
    assert [item["name"] for item in response["items"]] == ["ls"]
    assert (response["item_count"], response["total"]["steps"]) == (2, 2)


def test_figures_that_take_too_long_are_refused(recorded: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.api.figures.LIST_SECONDS", 0)
    refused = recorded.get("/figures?by=tool")
    assert refused.status == 422
    assert "Ask for fewer days, or for one agent, model or tool." in refused["detail"]


def test_filters_apply_to_the_total(recorded: Agent) -> None:
    response = recorded.get("/figures?from=2026-03-01&to=2026-03-31&tool=ls")
    assert (response["total"]["steps"], len(response["items"])) == (1, 1)
    assert items(recorded, "&agent=nobody") == {}


def test_the_previous_span_has_the_same_length(recorded: Agent) -> None:
    response = recorded.get("/figures?from=2026-03-03&to=2026-03-03")
    assert (response["total"]["steps"], response["before"]["steps"]) == (1, 1)


def test_the_default_span_is_the_last_thirty_days(recorded: Agent) -> None:
    response = recorded.get("/figures")
    today = timezone.now().date()
    assert response["last"] == today.isoformat()
    assert response["first"] == (today - timedelta(days=29)).isoformat()


def test_uncounted_sessions_are_reported(recorded: Agent, session_id: str) -> None:
    assert recorded.get("/figures")["is_current"] is True
    recorded.post(f"/sessions/{session_id}/entries", {"entries": [{"kind": "model_input", "content": "go"}]})
    assert recorded.get("/figures")["is_current"] is False


def test_takes_are_counted_on_request(recorded: Agent, session_id: str) -> None:
    recorded.post(f"/sessions/{session_id}/rewinds", {"to_step": 1})
    follow_changes(lambda: False)
    assert list(items(recorded)) == ["2026-03-02"]
    assert list(items(recorded, "&take=all")) == ["2026-03-02", "2026-03-03"]


def test_a_stranger_sees_no_figures(recorded: Agent, charlie: Agent) -> None:
    assert items(charlie) == {}
    assert charlie.get("/figures?from=2026-03-01&to=2026-03-31")["total"]["steps"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-03-02&to=2026-03-01",
        "from=0001-01-01&to=9999-12-31",
        "from=1",
        "by=month",
        "sort=colour",
        "from=2026-02-30",
    ],
)
def test_an_impossible_span_is_refused(alice: Agent, query: str) -> None:
    assert alice.get(f"/figures?{query}").status == 422


def test_the_first_day_of_the_calendar_has_no_previous_span(alice: Agent) -> None:
    assert alice.get("/figures?from=0001-01-01&to=0001-01-01")["before"]["steps"] == 0
    assert alice.get("/figures?to=0001-01-05")["first"] == "0001-01-01"


def test_the_figures_take_a_fixed_number_of_queries(
    recorded: Agent, django_assert_max_num_queries: Any, project: Project
) -> None:
    with django_assert_max_num_queries(11):  # on PostgreSQL two of them set the time limit
        recorded.get("/figures?by=tool")


def test_totals_of_more_than_64_bits_are_returned(recorded: Agent) -> None:
    ProjectDay.objects.update(cost=2**62, tokens=2**62, milliseconds=2**62)
    for by in ("day", "model", "tool"):
        response = recorded.get(f"/figures?from=2026-03-01&to=2026-03-31&by={by}")
        assert response["total"]["recorded_tokens"] == 2 * 2**62
        assert response["total"]["money"] > 2**62 / 1_000_000


def test_a_step_counts_at_most_a_year(alice: Agent, session_id: str, settled: None) -> None:
    call = {**TOOL, "created_at": "0002-01-01T00:00:00Z"}
    alice.post(f"/sessions/{session_id}/entries", {"entries": [call, FAILED]})
    follow_changes(lambda: False)
    response = alice.get("/figures?from=0002-01-01&to=0002-01-01")
    assert response["total"]["seconds"] == 366 * 24 * 3600
