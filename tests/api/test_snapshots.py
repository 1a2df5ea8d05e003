"""Snapshots over HTTP: listed, rebuilt byte by byte, compared."""

import json
from typing import Any

import pytest

from historyapp.core.formats import FORMATS
from historyapp.core.formats.base import EARLIER_START, START
from historyapp.core.policies import POLICIES, notes, scores
from historyapp.models import outlines
from tests.api.agent import Agent, ask, called, returned
from tests.api.test_problems import assert_problem

MISSING = "0197c7d4-0000-7000-8000-00000000dead"


def grow(run: Agent, *ids: str, outputs: str = "line\n" * 20) -> None:
    for id in ids:
        run.append(called(id))
        run.append(returned(id, outputs))


@pytest.fixture
def three(run: Agent) -> Agent:
    run.append({"kind": "system_instruction", "text": "You repair code."}, ask("find it"))
    grow(run, "call_0", "call_1", "call_2")
    return run


def new_snapshot(run: Agent, **choice: Any) -> str:
    response = run.post("/contexts", {"max_tokens": 5000, "policy": "live", **choice})
    assert response.status == 201, response.body
    return str(response["snapshot"])


def test_snapshots_are_listed_newest_first_in_pages(three: Agent) -> None:
    taken_ids = [new_snapshot(three) for _ in range(5)]
    first = three.get("/snapshots?limit=3")
    second = three.get(f"/snapshots?limit=3&cursor={first['next']}")
    assert [item["id"] for item in (*first["items"], *second["items"])] == taken_ids[::-1]
    assert second["next"] is None
    assert all("manifest" not in item for item in first["items"])
    assert_problem(three.get("/snapshots?cursor=WyJzbmFwc2hvdHMiLCJ4Il0"), 422, "belongs to another list")


def test_snapshots_are_as_of_a_position(three: Agent) -> None:
    old = new_snapshot(three, as_of=4)
    new = new_snapshot(three)
    assert [item["id"] for item in three.get("/snapshots?as_of=4")["items"]] == [old]
    assert three.get(f"/snapshots/{new}").status == 200
    assert_problem(three.get(f"/snapshots/{new}?as_of=4"), 404, "There is no snapshot")
    assert_problem(three.get("/snapshots?as_of=99"), 422, "Use 0 to 8")


def test_a_snapshot_has_all_options_of_its_request(three: Agent) -> None:
    tool = {"name": "read", "parameters": {"type": "object", "properties": {}}}
    served = three.post("/contexts", {"model": "gpt-5", "tools": [tool]}).body
    snapshot = three.get(f"/snapshots/{served['snapshot']}").body
    assert snapshot["manifest"] == served["manifest"]
    assert snapshot["sha256"] == served["sha256"]
    assert snapshot["tools"] == [tool]
    assert snapshot["settings"]["full_message_count"] == 4
    assert (snapshot["position"], snapshot["model"], snapshot["output_position"]) == (8, "gpt-5", None)
    assert snapshot["tokens"]["estimated"] == served["tokens"]["estimated"]


def test_a_request_is_rebuilt_after_any_later_change(three: Agent) -> None:
    three.post("/summaries", {"from_step": 1, "to_step": 1, "text": "read the first file"})
    choices = [{"policy": policy, "format": format} for policy in POLICIES for format in FORMATS]
    all_served = [three.post("/contexts", {**choice, "max_tokens": 700}).body for choice in choices]
    # At the same head, so that only the snapshot itself can tell that it came later.
    three.post("/summaries", {"from_step": 1, "to_step": 1, "text": "something else"})
    three.patch("", {"model": "claude-opus-4-5", "settings": {"full_message_count": 1, "window_size": 1}})
    three.append({"kind": "system_instruction", "text": "You do something else."})
    grow(three, "call_3")
    three.post("/rewinds", {"episodes": 3})
    for choice, served in zip(choices, all_served, strict=True):
        rebuilt = three.get(f"/snapshots/{served['snapshot']}/request")
        assert rebuilt["matches"] is True, choice
        assert rebuilt["request"] == served["request"]
        assert rebuilt["sha256"] == served["sha256"]
        assert rebuilt["note"] is None


def test_a_fork_rebuilds_snapshots_of_its_parent(alice: Agent, three: Agent) -> None:
    fork = alice.within(f"/sessions/{three.post('/forks')['id']}")
    three.post("/summaries", {"from_step": 1, "to_step": 1, "text": "made in the parent, later"})
    choice = {"policy": "episodic", "max_tokens": 700}
    fork.patch("", {"settings": {"full_message_count": 1}})
    served = fork.post("/contexts", choice).body
    three.post("/summaries", {"from_step": 1, "to_step": 1, "text": "and once more"})
    assert fork.get(f"/snapshots/{served['snapshot']}/request")["matches"] is True
    assert fork.get(f"/snapshots/{served['snapshot']}/request")["request"] == served["request"]


def test_a_live_screen_is_not_stored_and_the_other_parts_are_compared(three: Agent) -> None:
    id = new_snapshot(three, live_screen="a very private window " * 30, max_tokens=300)
    rebuilt = three.get(f"/snapshots/{id}/request")
    assert rebuilt["matches"] is True
    assert "never stored" in rebuilt["note"]
    assert "private" not in str(rebuilt.body) + str(three.get(f"/snapshots/{id}").body)
    assert three.get(f"/snapshots/{id}")["live_screen"] is True


def test_a_rebuilt_request_that_differs_is_reported(three: Agent) -> None:
    from historyapp.models import Snapshot

    id = new_snapshot(three)
    Snapshot.objects.update(sha256="0" * 64)
    assert three.get(f"/snapshots/{id}/request")["matches"] is False


def test_two_contexts_are_compared_by_segment_and_by_byte(three: Agent) -> None:
    one = new_snapshot(three, model="gpt-5")
    grow(three, "call_3")
    other = new_snapshot(three, model="gpt-5")
    diff = three.get(f"/snapshots/{one}/diff?with={other}")
    assert (diff["earlier"], diff["later"]) == (one, other)
    assert [segment["step"] for segment in diff["segments"]["added"]] == [4]
    assert diff["segments"]["removed"] == []
    first = diff["prefix"]["first_difference"]
    assert first > 0
    assert 0.5 < diff["prefix"]["share"] < 1
    assert three.get(f"/snapshots/{other}/diff?with={one}").body == diff.body


def test_a_context_does_not_differ_from_itself(three: Agent) -> None:
    id = new_snapshot(three)
    diff = three.get(f"/snapshots/{id}/diff?with={id}").body
    assert diff["segments"] == {"added": [], "removed": [], "changed": []}
    assert diff["prefix"] == {"first_difference": None, "share": 1.0}


def test_cache_savings_are_at_the_models_prices(three: Agent) -> None:
    grow(three, "call_3", outputs="a long line\n" * 700)
    saved = {}
    for model in ("gpt-5", "claude-opus-4-5", "llama-9"):
        one, other = (new_snapshot(three, model=model) for _ in range(2))
        cache = three.get(f"/snapshots/{one}/diff?with={other}")["cache"]
        assert cache["reusable_tokens"] > 1024
        assert cache["reusable_tokens"] % 128 == 0
        saved[model] = cache["saved"]
    assert saved["gpt-5"] > 0
    assert saved["claude-opus-4-5"] > 0
    assert saved["llama-9"] == "unknown"


@pytest.mark.parametrize("format", ["openai_chat", "openai_responses", "anthropic_messages", "plain"])
def test_a_snapshot_from_before_the_text_at_the_beginning_changed_is_rebuilt(
    alice: Agent, run: Agent, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a request begins with the model's output; Anthropic's API needs a user's message before it. Only
    these formats existed then."""
    grow(run, "call_0")
    monkeypatch.setattr("historyapp.core.formats.base.START", EARLIER_START)
    monkeypatch.setattr("historyapp.core.formats.anthropic_messages.START", EARLIER_START)
    served = run.post("/contexts", {"format": format}).body
    monkeypatch.undo()
    rebuilt = run.get(f"/snapshots/{served['snapshot']}/request").body
    assert rebuilt["matches"] is True
    assert rebuilt["request"] == served["request"]
    is_framed = format == "anthropic_messages"
    assert (EARLIER_START in json.dumps(served["request"])) == is_framed
    assert (START in json.dumps(run.post("/contexts", {"format": format})["request"])) == is_framed


def test_a_snapshot_whose_clipped_newest_step_left_room_is_rebuilt(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-11-29, a newest step stayed clipped although notes left room."""
    grow(run, *(f"call_{n}" for n in range(30)))
    grow(run, "call_30", outputs="a line with the output of a test\n" * 300)
    monkeypatch.setattr("historyapp.core.policies.budgeted._fill_newest", lambda *_: None)
    earlier = run.post("/contexts", {"policy": "budgeted", "max_tokens": 1000}).body
    monkeypatch.undo()
    now = run.post("/contexts", {"policy": "budgeted", "max_tokens": 1000}).body
    assert now["manifest"]["tokens"] > earlier["manifest"]["tokens"]
    for served in (earlier, now):
        rebuilt = run.get(f"/snapshots/{served['snapshot']}/request").body
        assert (rebuilt["matches"], rebuilt["request"]) == (True, served["request"])


def test_a_snapshot_that_read_few_names_of_each_step_is_rebuilt(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-11-30, at most 200 names of a step that are in none of its lines were read."""
    grow(run, "call_0", outputs="\n".join(f"v_{n}" for n in range(100, 600)))
    grow(run, *(f"call_{n}" for n in range(1, 30)), outputs="line\n" * 300)
    monkeypatch.setattr("historyapp.core.excerpts._MAX_OTHERS", 200)
    monkeypatch.setattr("historyapp.core.excerpts._MAX_OTHERS_LENGTH", 2000)
    monkeypatch.setattr("historyapp.services.snapshots.packed_excerpts", lambda _: [])
    earlier = run.post("/contexts", {"policy": "budgeted", "max_tokens": 8000}).body
    monkeypatch.undo()
    outlines._cache.clear()
    now = run.post("/contexts", {"policy": "budgeted", "max_tokens": 8000}).body
    assert "v_599" not in json.dumps(earlier["request"])
    assert "v_599" in json.dumps(now["request"])
    for served in (earlier, now):
        rebuilt = run.get(f"/snapshots/{served['snapshot']}/request").body
        assert (rebuilt["matches"], rebuilt["request"]) == (True, served["request"])


def test_a_snapshot_with_the_earlier_scores_of_names_is_rebuilt(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-11-30, numbers scored as much as other names."""
    names = (f"{n}: value_{n} = load_{n}(config_{n}) # {7 * n}" for n in range(100, 400))
    grow(run, "call_0", outputs="\n".join(names))
    grow(run, *(f"call_{n}" for n in range(1, 30)), outputs="line\n" * 300)
    monkeypatch.setattr(notes, "SCORING", scores.EARLIER_SCORING)
    earlier = run.post("/contexts", {"policy": "budgeted", "max_tokens": 2000}).body
    monkeypatch.undo()
    now = run.post("/contexts", {"policy": "budgeted", "max_tokens": 2000}).body
    assert earlier["request"] != now["request"]
    for served in (earlier, now):
        rebuilt = run.get(f"/snapshots/{served['snapshot']}/request").body
        assert (rebuilt["matches"], rebuilt["request"]) == (True, served["request"])


def test_a_snapshot_whose_notes_had_only_lines_of_excerpts_is_rebuilt(
    run: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until 2026-11-30, a used name had no line in notes if the excerpt of its step had none."""
    rich = [f"{n}: value_{n} = load_{n}(config_{n})" for n in range(100)]
    grow(run, "call_0", outputs="\n".join([*rich, "the queue of uploads reads upload_limit", *rich]))
    grow(run, *(f"call_{n}" for n in range(1, 15)), outputs="line\n" * 300)
    grow(run, "upload_limit", *(f"call_{n}" for n in range(16, 20)), outputs="line\n" * 300)
    monkeypatch.setattr("historyapp.core.policies.budgeted._sources", lambda *_: [])
    earlier = run.post("/contexts", {"policy": "budgeted", "max_tokens": 2000}).body
    monkeypatch.undo()
    now = run.post("/contexts", {"policy": "budgeted", "max_tokens": 2000}).body
    assert "the queue of uploads" not in json.dumps(earlier["request"])
    assert "the queue of uploads" in json.dumps(now["request"])
    for served in (earlier, now):
        rebuilt = run.get(f"/snapshots/{served['snapshot']}/request").body
        assert (rebuilt["matches"], rebuilt["request"]) == (True, served["request"])


def test_missing_and_foreign_snapshots_are_404(alice: Agent, three: Agent) -> None:
    id = new_snapshot(three)
    elsewhere = alice.within(f"/sessions/{alice.post('/sessions')['id']}")
    for path in (f"/snapshots/{id}", f"/snapshots/{id}/request", f"/snapshots/{id}/diff?with={id}"):
        assert_problem(elsewhere.get(path), 404, "There is no snapshot")
    assert_problem(three.get(f"/snapshots/{MISSING}"), 404)
    assert_problem(three.get("/snapshots/seven"), 404)
    assert_problem(three.get(f"/snapshots/{id}/diff?with={MISSING}"), 404)
    assert_problem(three.get(f"/snapshots/{id}/diff"), 422)


def test_an_output_that_names_its_snapshot_is_linked_and_bills_it(three: Agent) -> None:
    id = new_snapshot(three, model="claude-opus-4-5")
    estimated = three.get(f"/snapshots/{id}")["tokens"]["estimated"]
    usage = {"input_tokens": 100, "cache_read_input_tokens": estimated, "output_tokens": 7}
    metadata = {"snapshot": id, "usage": usage, "model": "claude-opus-4-5"}
    (position,) = three.append({"kind": "model_output", "text": "done", "metadata": metadata})
    snapshot = three.get(f"/snapshots/{id}").body
    assert (snapshot["output_position"], snapshot["tokens"]["billed"]) == (position, estimated + 100)
    tokens = three.post("/contexts", {"model": "claude-opus-4-5"})["tokens"]
    assert tokens["learned_from"] == 1
    assert tokens["factor"] != snapshot["tokens"]["factor"]
    assert tokens["error"] == pytest.approx(100 / (estimated + 100))


def test_usage_with_results_of_hosted_tools_corrects_nothing(three: Agent) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    id = new_snapshot(three, model="claude-opus-4-5", tools=[search])
    metadata = {"snapshot": id, "usage": {"input_tokens": 2000, "output_tokens": 7}}
    three.append({"kind": "model_output", "text": "done", "metadata": metadata})
    assert three.get(f"/snapshots/{id}")["tokens"]["billed"] == 2000
    assert three.get(f"/snapshots/{id}/request")["matches"] is True
    assert three.post("/contexts", {"model": "claude-opus-4-5"})["tokens"]["learned_from"] == 0


@pytest.mark.parametrize("name", [MISSING, "", "seven", 7, None, [], "\ud800"])
def test_an_output_can_name_anything_as_its_snapshot(three: Agent, name: Any) -> None:
    assert three.append({"kind": "model_output", "text": "done", "metadata": {"snapshot": name}}) == [9]


def test_exact_counts_are_not_corrected(three: Agent) -> None:
    id = new_snapshot(three, model="gpt-5")
    estimated = three.get(f"/snapshots/{id}")["tokens"]["estimated"]
    metadata = {"snapshot": id, "usage": {"input_tokens": estimated + 5, "output_tokens": 1}}
    three.append({"kind": "model_output", "text": "done", "metadata": metadata})
    tokens = three.post("/contexts", {"model": "gpt-5"})["tokens"]
    assert (tokens["factor"], tokens["learned_from"]) == (1.0, 1)
    assert tokens["error"] > 0
