"""Compression runs over the API: started, joined, watched, cancelled, retried, estimated and compared."""

from typing import Any
from uuid import UUID

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from historyapp.api.root import api
from historyapp.core.prices import load_prices
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Summary
from tests.api.agent import Agent
from tests.api.compressing import carry_out
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem

LOCAL = {"strategy": "simple_extract"}


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> Agent:
    run = owner.begin_run()
    for number in range(1, 7):
        run.step("ls", f"file {number}")
    return run


@pytest.fixture
def six(recorded: Agent, db: None) -> Agent:
    return recorded


def compress(agent: Agent, **fields: Any) -> dict[str, Any]:
    started = agent.post("/compressions", {**LOCAL, **fields})
    assert started.status == 202, started.body
    return dict(started.body)


def test_a_run_covers_all_but_the_newest_steps_and_reports_progress(six: Agent) -> None:
    started = compress(six)
    assert (started["state"], started["joined"], started["strategy"]) == ("queued", False, "simple_extract")
    assert (started["from_step"], started["to_step"], started["head"]) == (1, 2, 12)
    carry_out(started["id"], limit=1)
    half = six.get(f"/compressions/{started['id']}")
    assert (half["state"], half["total"], half["done"]) == ("running", 2, 1)
    carry_out(started["id"])
    whole = six.get(f"/compressions/{started['id']}")
    assert (whole["state"], whole["done"], whole["failed"], whole["errors"]) == ("succeeded", 2, 0, [])
    assert whole["tokens_saved"] == whole["tokens_before"] - whole["tokens_after"]
    assert (whole["money"], whole["model"]) == (0.0, "")
    assert whole["actor"].startswith("key:ph_")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_documented_and_can_be_requested(six: Agent, name: str) -> None:
    field = api.get_openapi_schema()["components"]["schemas"]["CompressionIn"]["properties"]["strategy"]
    assert f"`{name}`" in field["description"]
    assert six.post("/compressions", {"strategy": name})["strategy"] == name


def test_summaries_name_their_run(six: Agent) -> None:
    started = compress(six)
    carry_out(started["id"])
    items = six.get("/summaries")["items"]
    assert [(item["from_step"], item["text"], item["level"]) for item in items] == [
        (1, "did step 1", 1),
        (2, "did step 2", 1),
    ]
    assert {item["run"] for item in items} == {started["id"]}
    assert {item["money"] for item in items} == {None}


def test_the_cost_of_a_summary_is_unknown_if_its_model_has_no_price(six: Agent) -> None:
    carry_out(compress(six)["id"])
    Summary.objects.update(model="openai:my-own", cost=None)
    assert {item["money"] for item in six.get("/summaries")["items"]} == {"unknown"}
    Summary.objects.update(cost=1500)
    assert {item["money"] for item in six.get("/summaries")["items"]} == {0.0015}


def test_a_second_request_joins_the_active_run(six: Agent) -> None:
    first = compress(six)
    second = compress(six, from_step=1, to_step=6)
    assert (second["id"], second["joined"], second["to_step"]) == (first["id"], True, 2)
    assert CompressionRun.objects.count() == 1


def test_a_request_sent_again_starts_one_run(six: Agent) -> None:
    key = {"Idempotency-Key": "once"}
    first = six.post("/compressions", LOCAL, key)
    carry_out(first["id"])
    again = six.post("/compressions", LOCAL, key)
    assert again.body == first.body
    assert again.headers["Idempotency-Replayed"] == "true"


def test_workers_are_woken_once_the_run_is_stored(
    six: Agent,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    woken: list[UUID] = []
    monkeypatch.setattr("historyapp.enqueue.wake", woken.append)
    with django_capture_on_commit_callbacks(execute=True):
        started = compress(six)
        assert woken == []
    with django_capture_on_commit_callbacks(execute=True):
        six.post("/comparisons", {"from_step": 1, "to_step": 2, "sides": [LOCAL, LOCAL]})
    runs = CompressionRun.objects.order_by("id").values_list("pk", flat=True)
    assert woken == list(runs)
    assert woken[0] == UUID(started["id"])


def test_a_session_without_steps_has_nothing_to_compress(run: Agent) -> None:
    started = compress(run)
    assert started["state"] == "succeeded"
    assert "no steps yet" in started["note"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"strategy": "magic"}, "There is no strategy `magic`. Use one of `episode_summary`"),
        ({"strategy": "manual"}, "There is no strategy `manual`"),
        ({"strategy": "simple_extract", "options": {"nope": 1}}, "nope"),
        ({"strategy": "simple_extract", "model": "gpt-5-mini"}, "uses no model"),
        ({"strategy": "ai_summary", "model": "gpt-5-mini"}, "OPENAI_API_KEY"),
        ({"strategy": "ai_summary", "model": "who-knows"}, "who-knows"),
        ({"strategy": "simple_extract", "from_step": 9}, "There is no step 9"),
        ({"strategy": "simple_extract", "from_step": 2, "to_step": 1}, "comes after"),
    ],
)
@pytest.mark.parametrize("call", ["compressions", "estimate"])
def test_an_invalid_compression_is_refused(
    six: Agent, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], words: str, call: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if call == "compressions":
        response = six.post("/compressions", fields)
    else:
        query = {**fields, "options": '{"nope": 1}'} if "options" in fields else fields
        response = six.get("/compressions/estimate?" + "&".join(f"{k}={v}" for k, v in query.items()))
    assert_problem(response, 422, words)
    assert not CompressionRun.objects.exists()


def test_the_error_of_an_unknown_strategy_lists_the_known_ones(six: Agent) -> None:
    refused = six.post("/compressions", {"strategy": "magic"})
    assert refused["strategies"] == ["episode_summary", "ai_summary", "simple_extract", "structured"]


@pytest.mark.parametrize(("options", "words"), [("{", "not valid JSON"), ("[]", "must be a JSON object")])
def test_options_of_an_estimate_must_be_a_json_object(six: Agent, options: str, words: str) -> None:
    assert_problem(six.get(f"/compressions/estimate?options={options}"), 422, words)


def test_a_request_has_few_options(six: Agent) -> None:
    many = {"strategy": "simple_extract", "options": dict.fromkeys(map(str, range(101)))}
    assert_problem(six.post("/compressions", many), 422, "body.options must have at most 100 items")
    sides = {"from_step": 1, "to_step": 2, "sides": [many, {"strategy": "structured"}]}
    assert_problem(six.post("/comparisons", sides), 422, "body.sides[0].options must have at most 100 items")


def test_an_archived_session_is_not_compressed(six: Agent) -> None:
    six.delete()
    assert_problem(six.post("/compressions", LOCAL), 409, "archived")


def test_failed_items_are_reported_and_retried(six: Agent) -> None:
    id = compress(six, to_step=4)["id"]
    carry_out(id, failing=(2,))
    partly = six.get(f"/compressions/{id}")
    assert (partly["state"], partly["done"], partly["failed"]) == ("partly_failed", 3, 1)
    assert partly["errors"] == [{"from_step": 2, "to_step": 2, "error": "The model refused: no."}]
    retried = six.post(f"/compressions/{id}/retries")
    assert (retried.status, retried["state"], retried["failed"]) == (202, "queued", 0)
    carry_out(id)
    assert six.get(f"/compressions/{id}")["state"] == "succeeded"
    assert_problem(six.post(f"/compressions/{id}/retries"), 409, "has not failed")


def test_a_cancelled_run_keeps_its_summaries_and_can_be_retried(six: Agent) -> None:
    id = compress(six)["id"]
    carry_out(id, limit=1)
    cancelled = six.delete(f"/compressions/{id}")
    assert (cancelled.status, cancelled["state"]) == (200, "cancelled")
    assert "1 of 2" in cancelled["note"]
    assert_problem(six.delete(f"/compressions/{id}"), 409, "was cancelled")
    carry_out(id)
    assert len(six.get("/summaries")["items"]) == 1
    assert six.post(f"/compressions/{id}/retries").status == 202
    carry_out(id)
    assert six.get(f"/compressions/{id}")["done"] == 2


def test_runs_are_listed_newest_first_without_trials(six: Agent) -> None:
    first = compress(six)["id"]
    carry_out(first)
    second = compress(six, again=True)["id"]
    carry_out(second)
    six.post("/comparisons", {"from_step": 1, "to_step": 1, "sides": [LOCAL, LOCAL]})
    page = six.get("/compressions?limit=1")
    assert [item["id"] for item in page["items"]] == [second]
    rest = six.get(f"/compressions?limit=1&cursor={page['next']}")
    assert ([item["id"] for item in rest["items"]], rest["next"]) == ([first], None)
    assert len(six.get("/compressions?trial=true")["items"]) == 4


def test_a_project_has_a_limited_number_of_running_comparisons(
    six: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.strategy_comparisons.MAX_RUNNING", 5)
    body = {"from_step": 1, "to_step": 1, "sides": [LOCAL, LOCAL]}
    for _ in range(2):
        assert six.post("/comparisons", body).status == 202
    assert_problem(six.post("/comparisons", body), 409, "4 compressions for comparisons", "Wait")
    running = CompressionRun.objects.active().filter(trial=True)
    carry_out(str(running.order_by("pk")[0].pk))
    assert six.post("/comparisons", body).status == 202


def test_a_run_is_not_listed_as_of_an_earlier_position(six: Agent) -> None:
    id = compress(six)["id"]
    assert six.get("/compressions?as_of=11")["items"] == []
    assert_problem(six.get(f"/compressions/{id}?as_of=11"), 404, "There is no compression")
    assert six.get(f"/compressions/{id}?as_of=12").status == 200
    assert_problem(six.get("/compressions?as_of=13"), 422, "13")


def test_an_etag_is_valid_until_the_run_changes(six: Agent) -> None:
    path = f"/compressions/{compress(six)['id']}"
    tag = six.get(path).headers["ETag"]
    assert six.get(path, {"If-None-Match": tag}).status == 304
    carry_out(path.rpartition("/")[2], limit=1)
    assert six.get(path, {"If-None-Match": tag}).status == 200


@pytest.mark.parametrize("path", ["compressions", "comparisons"])
def test_a_run_of_another_session_is_a_404(alice: Agent, six: Agent, path: str) -> None:
    run = compress(six)["id"]
    sides = {"from_step": 1, "to_step": 1, "sides": [LOCAL, LOCAL]}
    id = run if path == "compressions" else six.post("/comparisons", sides)["id"]
    other = alice.within(f"/sessions/{alice.post('/sessions')['id']}")
    assert six.get(f"/{path}/{id}").status == 200
    for wrong in (id, "nonsense"):
        refused = other.get(f"/{path}/{wrong}")
        assert_problem(refused, 404, f"There is no {path.removesuffix('s')} {wrong} in this session.")


def test_an_estimate_describes_a_run(six: Agent) -> None:
    response = six.get("/compressions/estimate?strategy=simple_extract")
    assert (response["from_step"], response["to_step"]) == (1, 2)
    assert (response["steps"], response["summaries"]) == (2, 2)
    assert (response["calls"], response["tokens_in"], response["money"]) == (0, 0, 0.0)
    assert response["tokens_before"] == sum(six.get(f"/episodes/{number}")["tokens"] for number in (1, 2))
    assert six.get("/compressions/estimate?strategy=simple_extract&as_of=10")["to_step"] == 1
    assert not CompressionRun.objects.exists()


def test_an_estimate_with_a_model_has_tokens_and_cost(six: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    path = "/compressions/estimate?strategy=ai_summary&from_step=1&to_step=6&model="
    response = six.get(f"{path}gpt-5-mini")
    assert (response["summaries"], response["calls"]) == (2, 2)
    assert response["tokens_in"] > response["tokens_before"]
    assert response["money"] > 0
    assert response["prices_as_of"] == load_prices().as_of
    assert six.get(f"{path}openai:my-own")["money"] == "unknown"


def test_a_comparison_stores_no_summaries_of_the_steps(six: Agent) -> None:
    sides = [LOCAL, {"strategy": "structured"}]
    made = six.post("/comparisons", {"from_step": 1, "to_step": 4, "sides": sides})
    assert made.status == 202
    assert (made["ended"], [side["strategy"] for side in made["sides"]]) == (
        False,
        ["simple_extract", "structured"],
    )
    for side in made["sides"]:
        carry_out(side["id"])
    response = six.get(f"/comparisons/{made['id']}")
    assert response["ended"] is True
    extracted, structured = response["sides"]
    assert [item["text"] for item in extracted["items"]] == [f"did step {number}" for number in range(1, 5)]
    assert {item["tokens_after"] for item in extracted["items"]} == {3}
    assert structured["items"][-1]["to_step"] == 4
    assert six.get("/summaries")["items"] == []
    assert compress(six)["joined"] is False


def test_a_comparison_needs_exactly_two_sides(six: Agent) -> None:
    for sides in ([LOCAL], [LOCAL] * 3):
        wrong = six.post("/comparisons", {"from_step": 1, "to_step": 2, "sides": sides})
        assert_problem(wrong, 422, "body.sides")


def test_a_comparison_has_a_limit_of_steps(run: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.services.strategy_comparisons.MAX_COMPARED", 2)
    for _ in range(3):
        run.step()
    fields = {"from_step": 1, "to_step": 3, "sides": [LOCAL, LOCAL]}
    assert_problem(run.post("/comparisons", fields), 422, "at most 2 steps; this one has 3")


def compared(agent: Agent, last: int) -> str:
    """A comparison of single steps with ranges of four; both have ended."""
    sides = [LOCAL, {"strategy": "structured"}]
    made = agent.post("/comparisons", {"from_step": 1, "to_step": last, "sides": sides})
    for side in made["sides"]:
        carry_out(side["id"])
    return f"/comparisons/{made['id']}"


def test_rows_begin_and_end_where_summaries_of_both_sides_do(six: Agent) -> None:
    path = compared(six, 6)
    rows = six.get(f"{path}/rows")["items"]
    ranges = [[(item["from_step"], item["to_step"]) for item in side["items"]] for side in rows[0]["sides"]]
    assert [(row["from_step"], row["to_step"]) for row in rows] == [(1, 4), (5, 6)]
    assert ranges == [[(number, number) for number in range(1, 5)], [(1, 4)]]
    assert [step["number"] for step in rows[0]["steps"]] == [1, 2, 3, 4]
    assert rows[0]["tokens"] == sum(step["tokens"] for step in rows[0]["steps"])
    assert {(side["tokens_after"] > 0, side["money"]) for side in rows[0]["sides"]} == {(True, 0.0)}


def test_rows_are_paginated(six: Agent) -> None:
    path = compared(six, 6)
    first = six.get(f"{path}/rows?limit=1")
    second = six.get(f"{path}/rows?limit=1&cursor={first['next']}")
    assert [row["from_step"] for page in (first, second) for row in page["items"]] == [1, 5]
    assert second["next"] is None
    other = compared(six, 2)
    assert_problem(six.get(f"{other}/rows?cursor={first['next']}"), 422, "another comparison")


def test_recall_shows_which_side_keeps_names_that_later_steps_needed(run: Agent) -> None:
    for path, outputs in (("ls", "see src/app.py and src/old.py"), ("src/app.py", "fine"), ("x", "fine")):
        run.post("/actions", {"thoughts": "look", "use_tool": {"name": "read", "arguments": {"path": path}}})
        run.post("/results", {"status": "success", "outputs": outputs})
    path = compared(run, 1)
    items = CompressionItem.objects.order_by("run_id", "number")
    for item, written in zip(items, ("It is in src/app.py.", "A listing."), strict=True):
        CompressionItem.objects.filter(pk=item.pk).update(text=written)
    needed = {"name": "src/app.py", "step": 1, "used_at": 2, "kept_by": ["a"]}
    recall = run.get(path)["recall"]
    assert recall == {"searched_steps": 1, "later_steps": 2, "names": [needed], "kept": [1, 0]}
    (row,) = run.get(f"{path}/rows")["items"]
    assert row["needed"] == [needed]
    assert [(side["kept"], side["lost"]) for side in row["sides"]] == [
        (["src/app.py"], []),
        ([], ["src/app.py"]),
    ]
    assert [side["names_kept"] for side in row["sides"]] == [1, 0]
    assert row["names"] == 2


def test_a_rewind_does_not_change_the_compared_originals(six: Agent) -> None:
    path = compared(six, 4)
    six.post("/rewinds", {"to_step": 2})
    six.step("ls", "something else")
    rows = six.get(f"{path}/rows")["items"]
    assert [step["result_preview"] for step in rows[0]["steps"]][2:] == ["file 3", "file 4"]
    assert six.get(path)["recall"]["later_steps"] == 0
