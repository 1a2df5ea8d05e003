"""Sessions are created, found, renamed and archived."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.models import AuditRecord, Session
from tests.api.agent import Agent, ask, called
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem
from tests.examples import examples

GIVEN = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"


def test_a_session_has_no_required_fields(alice: Agent) -> None:
    made = alice.send("POST", "/sessions", b"{}")
    assert made.status == 201
    assert UUID(made["id"]).version == 7
    assert (made["title"], made["status"], made["tags"], made["head"]) == ("", "live", [], 0)
    assert made["settings"]["max_tokens"] == "window"


def test_a_sub_agent_names_the_step_that_starts_it(alice: Agent) -> None:
    parent = alice.post("/sessions")["id"]
    first: dict[str, Any] = {"kind": "model_output", "use_tool": {"name": "task"}}
    alice.within(f"/sessions/{parent}").append(ask(), first, {"kind": "model_output", "text": "b"})
    child = alice.post("/sessions", {"spawned_by": parent, "spawned_step": 1})
    assert (child["spawned_by"], child["spawned_position"]) == (parent, 2)
    newest = alice.post("/sessions", {"spawned_by": parent, "spawned_step": -1})
    assert newest["spawned_position"] == 3
    assert alice.get(f"/sessions/{child['id']}")["spawned_position"] == 2
    unknown = alice.post("/sessions", {"spawned_by": parent})
    assert (unknown["spawned_by"], unknown["spawned_position"]) == (parent, None)


def test_the_parent_of_a_sub_agent_must_exist(alice: Agent, charlie: Agent) -> None:
    parent = alice.post("/sessions")["id"]
    assert_problem(alice.post("/sessions", {"spawned_by": parent, "spawned_step": 1}), 422, "no step 1")
    assert_problem(alice.post("/sessions", {"spawned_step": 1}), 422, "spawned_step needs spawned_by")
    assert_problem(alice.post("/sessions", {"spawned_by": GIVEN}), 422, "spawned_by")
    assert_problem(charlie.post("/sessions", {"spawned_by": parent}), 422, "spawned_by")


def test_a_session_is_read_as_it_was_created(alice: Agent) -> None:
    expected = {
        "id": GIVEN,
        "title": "Größe 🚀",
        "agent": "fixer",
        "model": "gpt-5-mini",
        "tags": ["b", "a", "b"],
        "settings": {"max_tokens": None, "window_size": 2},
        "metadata": {"folder": "/tmp", "odd": "\ud800\x00"},
    }
    made = alice.post("/sessions", expected)
    assert made.status == 201, made.body
    read = alice.get(f"/sessions/{GIVEN}")
    assert read.body == made.body
    assert read["tags"] == ["b", "a"]
    assert read["metadata"] == expected["metadata"]
    assert read["settings"]["max_tokens"] is None
    assert (read["settings"]["window_size"], read["settings"]["full_message_count"]) == (2, 4)


def test_a_taken_id_is_a_conflict(alice: Agent, charlie: Agent) -> None:
    assert alice.post("/sessions", {"id": GIVEN}).status == 201
    assert_problem(alice.post("/sessions", {"id": GIVEN}), 409, GIVEN, "taken")
    assert_problem(charlie.post("/sessions", {"id": GIVEN.upper()}), 409, "taken")


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": "x" * 301},
        {"title": "a\x00b"},
        {"title": "\ud800"},
        {"title": None},
        {"title": 5},
        {"agent": "x" * 201},
        {"tags": ["a\nb"]},
        {"tags": [""]},
        {"tags": ["x"] * 51},
        {"tags": "x"},
        {"id": "5"},
        {"id": 5},
        {"id": "{0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d}"},
        {"settings": {"max_tokens": -1}},
        {"settings": {"max_tokens": "5"}},
        {"settings": {"max_tokens": 5.5}},
        {"settings": {"compress_automatically": "yes"}},
        {"settings": {"policy": "none"}},
        {"settings": {"llm_name": "a\x00b"}},
        {"settings": {"llm_name": "\ud800"}},
        {"settings": {"llm_name": "x" * 201}},
        {"settings": {"spacy_language_model": "a\x00b"}},
        {"settings": {"summary_instruction": ""}},
        {"settings": {"summary_instruction": "\n "}},
        {"settings": {"summary_instruction": "x" * 2_001}},
        {"settings": {"summary_instruction": "a\x00b"}},
        {"settings": {"summary_instruction": "\ud800"}},
        {"settings": {"unknown": 1}},
        {"metadata": []},
    ],
)
def test_the_error_of_an_invalid_session_names_the_field(alice: Agent, wrong: dict[str, Any]) -> None:
    refused = alice.post("/sessions", wrong)
    assert_problem(refused, 422)
    assert refused["errors"][0]["loc"][:2] == ["body", next(iter(wrong))]
    assert alice.get("/sessions")["items"] == []


def test_many_unknown_settings_are_one_error(alice: Agent) -> None:
    refused = alice.post("/sessions", {"settings": dict.fromkeys(map(str, range(100_000)), 0)})
    assert_problem(refused, 422)
    assert refused["detail"] == "body.settings has 100000 fields, most of them unknown."


@pytest.mark.parametrize("wrong", ["wide", -1, 1.5, [], True, 2**31, 2**63 - 1, 10**400])
def test_the_error_of_an_invalid_budget_gives_the_limits(alice: Agent, wrong: Any) -> None:
    refused = alice.post("/sessions", {"settings": {"max_tokens": wrong}})
    assert_problem(refused, 422)
    assert 'a whole number from 0 to 2,147,483,647, "window" or null' in refused["detail"]


def test_the_largest_budget_is_accepted_and_larger_stored_ones_are_read_as_it(alice: Agent) -> None:
    largest = {"max_tokens": 2**31 - 1, "compression_share": 100.0}
    address = f"/sessions/{alice.post('/sessions', {'settings': largest})['id']}"
    Session.objects.update(settings={**largest, "max_tokens": 2**63 - 1})
    assert alice.get(address)["settings"]["max_tokens"] == 2**31 - 1
    changed = alice.patch(address, {"settings": {"window_size": 2}})
    assert (changed["settings"]["window_size"], changed["settings"]["max_tokens"]) == (2, 2**31 - 1)


def test_a_change_affects_only_the_fields_in_the_request(alice: Agent, session_id: str) -> None:
    address = f"/sessions/{session_id}"
    before = alice.patch(address, {"tags": ["x"], "settings": {"window_size": 2}}).body
    after = alice.patch(address, {"title": "better", "settings": {"max_tokens": 5}}).body
    assert after["settings"] == {**before["settings"], "max_tokens": 5}
    assert {**after, "title": "a run", "settings": before["settings"]} == before
    assert alice.get(address).body == after


@pytest.mark.parametrize("wrong", [{"title": None}, {"status": "deleted"}, {"head": 5}, {"id": GIVEN}, []])
def test_an_invalid_change_changes_nothing(alice: Agent, session_id: str, wrong: Any) -> None:
    before = alice.get(f"/sessions/{session_id}").body
    assert_problem(alice.patch(f"/sessions/{session_id}", wrong), 422)
    assert alice.get(f"/sessions/{session_id}").body == before


def test_delete_archives_a_session(alice: Agent, run: Agent, session_id: str) -> None:
    run.append(ask())
    deleted = run.delete()
    assert (deleted.status, deleted.body) == (204, None)
    assert run.get()["status"] == "archived"
    assert run.get("/entries")["items"][0]["content"] == "go"
    assert_problem(run.post("/entries", {"entries": [ask()]}), 409, "archived")
    assert run.patch("", {"status": "live"}).status == 200
    run.append(ask())
    actions = AuditRecord.objects.order_by("id").values_list("action", "actor")
    assert [action for action, _ in actions][-2:] == ["status: archived", "status: live"]
    assert all(actor.startswith("key:ph_") for _, actor in actions if actor)


def test_instruction_and_notebook_can_be_read_as_of_any_position(run: Agent) -> None:
    for text in ("first", "second"):
        run.append({"kind": "system_instruction", "text": text}, {"kind": "memory_notebook", "content": text})
    assert (run.get()["instruction"], run.get()["notebook"]) == ("second", "second")
    then = run.get("?as_of=3")
    assert (then["head"], then["instruction"], then["notebook"]) == (3, "second", "first")
    assert run.get("?as_of=0")["instruction"] is None


def test_the_newest_entry_can_be_read_as_of_any_position(alice: Agent, run: Agent) -> None:
    run.append(ask("1"), ask("2"))
    run.append(ask("3"))
    run.post("/rewinds", {"to_position": 1})
    fork = alice.within(f"/sessions/{run.post('/forks', {'at_position': 3})['id']}")
    fork.append(ask("4"))
    times = {entry["position"]: entry["created_at"] for entry in run.get("/entries?as_of=3")["items"]}
    assert [run.get(f"?as_of={head}")["last_entry_at"] for head in (1, 2, 3)] == list(times.values())
    assert run.get("?as_of=4")["last_entry_at"] == run.get()["last_entry_at"] == times[3]
    assert run.get("?as_of=0")["last_entry_at"] == run.get()["created_at"]
    assert fork.get("?as_of=2")["last_entry_at"] == times[2]


def test_counters_can_be_read_as_of_any_position(run: Agent) -> None:
    run.step()
    run.act()
    run.fail()
    now, then = run.get(), run.get("?as_of=2")
    assert (now["steps"], now["errors"], then["steps"], then["errors"]) == (2, 1, 1, 0)
    assert now["tokens"] > then["tokens"] > 0


@pytest.mark.parametrize("as_of", ["5", "-1", "x", "1.0", "", "99999999999999999999", "1_0", " 1"])
def test_an_invalid_position_is_refused(run: Agent, as_of: str) -> None:
    run.append(ask())
    assert run.get(f"?as_of={as_of}").status == 422
    assert run.get(f"/entries?as_of={as_of}").status == 422
    assert run.get(f"/episodes?as_of={as_of}").status == 422
    assert run.get(f"/rewinds?as_of={as_of}").status == 422
    assert run.get(f"/summaries?as_of={as_of}").status == 422


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> dict[str, str]:
    made, alice = {}, owner.agent
    for title, agent, tags in [
        ("Fix the parser", "fixer", ["bug", "red"]),
        ("Write the docs", "writer", ["docs"]),
        ("100% of_it", "fixer", ["bug"]),
        ("Größe ÄNDERN", "Ёж", ["Straße"]),
    ]:
        made[title] = alice.post("/sessions", {"title": title, "agent": agent, "tags": tags})["id"]
    failing = alice.within(f"/sessions/{made['Fix the parser']}")
    failing.act()
    failing.fail()
    alice.patch(f"/sessions/{made['Write the docs']}", {"status": "finished"})
    return made


@pytest.fixture
def many(recorded: dict[str, str], db: None) -> dict[str, str]:
    """Ids of some sessions by title."""
    return recorded


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("", {"Fix the parser", "Write the docs", "100% of_it", "Größe ÄNDERN"}),
        ("?q=GRÖSSE+ändern", {"Größe ÄNDERN"}),
        ("?q=ёЖ", {"Größe ÄNDERN"}),
        ("?q=STRASSE", {"Größe ÄNDERN"}),
        ("?q=THE", {"Fix the parser", "Write the docs"}),
        ("?q=the+fix", {"Fix the parser"}),
        ("?q=writer", {"Write the docs"}),
        ("?q=red", {"Fix the parser"}),
        ("?q=%25", {"100% of_it"}),
        ("?q=f_i", {"100% of_it"}),
        ("?q=nothing", set()),
        ("?agent=fixer", {"Fix the parser", "100% of_it"}),
        ("?agent=fix", set()),
        ("?tag=bug", {"Fix the parser", "100% of_it"}),
        ("?tag=bug&tag=red", {"Fix the parser"}),
        ("?tag=bu", set()),
        ("?tag=BUG", set()),
        ("?status=finished", {"Write the docs"}),
        ("?status=live&tag=bug", {"Fix the parser", "100% of_it"}),
        ("?status=archived", set()),
        ("?errors=true", {"Fix the parser"}),
        ("?errors=false", {"Write the docs", "100% of_it", "Größe ÄNDERN"}),
    ],
)
def test_sessions_are_found_by_their_fields(
    alice: Agent, many: dict[str, str], query: str, titles: set[str]
) -> None:
    assert {item["title"] for item in alice.get(f"/sessions{query}")["items"]} == titles


def test_sessions_are_found_by_the_beginning_of_their_id(alice: Agent, charlie: Agent) -> None:
    ids = [f"0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c{n}" for n in ("00", "0f", "f0")]
    for id in ids:
        alice.post("/sessions", {"id": id})

    def found(prefix: str) -> list[str]:
        return sorted(item["id"] for item in alice.get(f"/sessions?id={prefix}")["items"])

    assert found("0197C7D45a3e") == found(ids[0][:-2]) == ids
    assert found(ids[0][:-1]) == ids[:2]
    assert found(ids[2]) == ids[2:]
    assert found("f") == []
    assert charlie.get(f"/sessions?id={ids[0]}")["items"] == []


def test_archived_sessions_are_listed_on_request(alice: Agent, session_id: str) -> None:
    alice.delete(f"/sessions/{session_id}")
    assert alice.get("/sessions")["items"] == []
    assert [item["id"] for item in alice.get("/sessions?status=archived")["items"]] == [session_id]
    assert [item["id"] for item in alice.get("/sessions?status=all")["items"]] == [session_id]


@pytest.mark.parametrize(
    "query",
    [
        "status=old",
        "errors=1",
        "errors=yes",
        "limit=0",
        "limit=501",
        "q=%00",
        "tag=",
        "tag=a%0Ab",
        "agent=%00",
        "id=g",
        "id=",
        "id=" + "0" * 37,
    ],
)
def test_an_invalid_filter_is_refused(alice: Agent, query: str) -> None:
    assert_problem(alice.get(f"/sessions?{query}"), 422, f"query.{query.split('=')[0]}")


def test_the_session_with_the_newest_entry_comes_first(alice: Agent, many: dict[str, str]) -> None:
    oldest = many["100% of_it"]
    alice.within(f"/sessions/{oldest}").append(ask())
    assert alice.get("/sessions?limit=1")["items"][0]["id"] == oldest


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 8), moments=st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_pages_contain_each_session_once_in_order(alice: Agent, limit: int, moments: list[int]) -> None:
    tag = str(UUID(int=hash((limit, *moments)) % 2**128))
    for moment in moments:
        id = alice.post("/sessions", {"tags": [tag]})["id"]
        at = f"2026-01-0{moment + 1}T00:00:00Z"
        alice.within(f"/sessions/{id}").append({**ask(), "created_at": at})
    whole = alice.get(f"/sessions?tag={tag}&limit=500")
    assert whole["next"] is None
    paged: list[Any] = []
    page = alice.get(f"/sessions?tag={tag}&limit={limit}")
    while True:
        paged += page["items"]
        if page["next"] is None:
            break
        assert len(page["items"]) == limit
        page = alice.get(f"/sessions?tag={tag}&limit={limit}&cursor={page['next']}")
    assert paged == whole["items"]
    assert len(paged) >= len(moments)
    times = [item["last_entry_at"] for item in paged]
    assert times == sorted(times, reverse=True)


def test_sessions_with_open_calls_of_any_id_are_listed(alice: Agent, run: Agent, session_id: str) -> None:
    run.append({"kind": "model_output", "text": "a"}, called("nul \x00, surrogate \ud800, backslash \\u0000"))
    fork = run.post("/forks", {"at_step": 2})["id"]
    listed = {item["id"]: item["steps"] for item in alice.get("/sessions?limit=2")["items"]}
    assert listed == {session_id: 2, fork: 2}


def test_an_unknown_strategy_is_refused_with_the_known_ones(alice: Agent, session_id: str) -> None:
    settings = {"settings": {"compression_strategy": "magic"}}
    for refused in (alice.post("/sessions", settings), alice.patch(f"/sessions/{session_id}", settings)):
        assert_problem(refused, 422, "There is no strategy `magic`. Use one of `episode_summary`")
        assert "simple_extract" in refused["strategies"]
    known = alice.patch(f"/sessions/{session_id}", {"settings": {"compression_strategy": "structured"}})
    assert known["settings"]["compression_strategy"] == "structured"


def test_the_error_of_a_long_summary_instruction_gives_the_limit(alice: Agent) -> None:
    refused = alice.post("/sessions", {"settings": {"summary_instruction": "x" * 2_001}})
    assert "summary_instruction has 2,001 characters. Use at most 2,000." in refused["detail"]
    kept = alice.post("/sessions", {"settings": {"summary_instruction": "Keep paths."}})
    assert kept["settings"]["summary_instruction"] == "Keep paths."
