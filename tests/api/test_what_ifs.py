"""Saved What ifs belong to a project. Names are unique in a project."""

from typing import Any

import pytest

from historyapp.models import Project, WhatIf
from historyapp.services import what_ifs
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem

SMALL = {"name": "small", "policy": "masked", "max_tokens": 4096}


def save(agent: Agent, **fields: Any) -> dict[str, Any]:
    response = agent.put("/what-ifs", fields)
    assert response.status == 200, response.body
    return dict(response.body)


def names(agent: Agent, query: str = "") -> list[str]:
    return [item["name"] for item in agent.get(f"/what-ifs{query}")["items"]]


def test_saved_what_ifs_are_listed_with_nulls_for_left_out_fields(alice: Agent) -> None:
    saved = save(alice, **SMALL)
    assert {name: saved[name] for name in ("policy", "max_tokens", "format", "model")} == {
        "policy": "masked", "max_tokens": 4096, "format": None, "model": None,
    }  # fmt: skip
    assert saved["actor"].startswith("key:ph_")
    assert alice.get("/what-ifs")["items"] == [saved]


def test_saving_a_name_again_keeps_its_id_and_creation_time(alice: Agent) -> None:
    first, second = save(alice, **SMALL), save(alice, name=" small ", model="gpt-5-nano")
    assert (first["id"], first["created_at"]) == (second["id"], second["created_at"])
    assert (second["policy"], second["model"]) == (None, "gpt-5-nano")
    assert names(alice) == ["small"]


def test_a_budget_of_zero_is_a_budget(alice: Agent) -> None:
    assert save(alice, name="nothing", max_tokens=0)["max_tokens"] == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Choose a policy"),
        ({"policy": None, "format": None}, "Choose a policy"),
        ({"policy": "x"}, "Use one of budgeted"),
        ({"format": "x"}, "Use one of openai_chat"),
        ({"max_tokens": 2_000_001}, ""),
        ({"name": "  ", "policy": "live"}, "Enter a name"),
        ({"name": "x" * 101, "policy": "live"}, ""),
    ],
)
def test_an_invalid_what_if_is_not_saved(alice: Agent, fields: dict[str, Any], words: str) -> None:
    assert_problem(alice.put("/what-ifs", {"name": "n", **fields}), 422, words)
    assert not WhatIf.objects.exists()


def test_a_what_if_can_be_deleted(alice: Agent) -> None:
    id = save(alice, **SMALL)["id"]
    assert alice.delete(f"/what-ifs/{id}").status == 204
    assert names(alice) == []
    assert_problem(alice.delete(f"/what-ifs/{id}"), 404, "There is no saved What if")
    assert_problem(alice.delete("/what-ifs/small"), 404, "There is no saved What if small.")


def test_members_share_what_ifs_and_other_projects_have_their_own(
    alice: Agent, bob: Agent, charlie: Agent
) -> None:
    id = save(alice, **SMALL)["id"]
    assert names(bob) == ["small"]
    assert names(charlie) == []
    assert charlie.delete(f"/what-ifs/{id}").status == 404
    save(charlie, name="small", policy="live")
    assert alice.get("/what-ifs")["items"][0]["policy"] == "masked"


def test_a_key_with_the_scope_write_can_save_but_not_delete(alice: Agent, project: Project) -> None:
    writer = Agent(key_for(project, "writer", ("read", "write")))
    id = save(writer, **SMALL)["id"]
    assert_problem(writer.delete(f"/what-ifs/{id}"), 403, "admin")


def test_what_ifs_are_paginated_in_the_order_of_saving(alice: Agent) -> None:
    for name in ("c", "a", "b"):
        save(alice, name=name, policy="live")
    first = alice.get("/what-ifs?limit=2")
    assert [item["name"] for item in first["items"]] == ["c", "a"]
    assert names(alice, f"?limit=2&cursor={first['next']}") == ["b"]


def test_the_number_of_what_ifs_is_limited(alice: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_ifs, "MAX_WHAT_IFS", 1)
    save(alice, **SMALL)
    assert_problem(alice.put("/what-ifs", {**SMALL, "name": "other"}), 409, "at most 1 saved")
    assert save(alice, name="small", policy="live")["policy"] == "live"


def test_a_session_can_name_the_format_of_its_contexts(alice: Agent, session_id: str) -> None:
    session = alice.within(f"/sessions/{session_id}")
    session.append({"kind": "model_input", "content": "Go."})
    assert (
        alice.patch(f"/sessions/{session_id}", {"settings": {"format": "anthropic_messages"}}).status == 200
    )
    assert session.get("/contexts")["request"]["messages"][0]["content"][0]["type"] == "text"
    assert "input" in session.get("/contexts?format=openai_responses")["request"]
    assert_problem(alice.patch(f"/sessions/{session_id}", {"settings": {"format": "x"}}), 422, "")
