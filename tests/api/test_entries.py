"""Entries: appended in order, all or none, and read by position, live or in takes."""

from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.api.entries import Kind
from historyapp.core.entries import KINDS
from tests.api.agent import Agent, ask, called, returned
from tests.api.test_problems import assert_problem
from tests.examples import examples

AT = "2024-05-01T12:30:00Z"
ODD = "\x00 nul, \ud800 half a pair, 日本 🚀 <script>alert(1)</script>\r\n"
EVERY_KIND: list[dict[str, Any]] = [
    {"kind": "system_instruction", "text": ODD},
    {"kind": "memory_notebook", "content": ODD},
    {
        "kind": "model_input",
        "channel": "web",
        "raw_input": {ODD: 1},
        "content": [{"type": "text", "text": ODD}],
    },
    {
        "kind": "model_output",
        "thoughts": {"summary": ODD, "plan": [1, None]},
        "text": ODD,
        "tool_calls": [{"id": ODD, "name": "read", "arguments": {ODD: [ODD]}}],
        "reasoning": [{"type": "thinking", "signature": "x"}],
        "raw_message": {"content": None, "tool_calls": []},
    },
    {
        "kind": "tool_results",
        "overall": ODD,
        "results": [
            {
                "tool_call_id": ODD,
                "status": "error",
                "reason": ODD,
                "error": {"args": [1], "message": ODD, "exception_type": "E", "repr": "E()"},
            }
        ],
    },
    {"kind": "review", "analysis": [ODD], "supervision": {"a": 1.5}, "score": 0.5, "passed": False},
    {"kind": "debug_log", "category": "http", "message": ODD},
]


def test_every_kind_is_returned_as_sent(run: Agent) -> None:
    sent = [
        {**entry, "metadata": {"n": n, "odd": ODD}, "created_at": AT} for n, entry in enumerate(EVERY_KIND)
    ]
    assert run.append(*sent) == [1, 2, 3, 4, 5, 6, 7]
    items = run.get("/entries")["items"]
    facts = ("position", "tokens", "live")
    assert [{name: item[name] for name in item if name not in facts} for item in items] == sent
    assert [item["position"] for item in items] == [1, 2, 3, 4, 5, 6, 7]
    assert all(item["live"] for item in items)
    assert [run.get(f"/entries/{position}").body for position in range(1, 8)] == items


texts = st.text(st.characters(exclude_categories=()), max_size=30)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=anything, metadata=st.dictionaries(texts, anything, max_size=3))
def test_any_json_is_returned_as_sent(run: Agent, content: Any, metadata: dict[str, Any]) -> None:
    (position,) = run.append({"kind": "model_input", "content": content, "metadata": metadata})
    entry = run.get(f"/entries/{position}")
    assert (entry["content"], entry["metadata"]) == (content, metadata)


@pytest.mark.parametrize(
    ("given_time", "kept"),
    [
        ("2024-05-01T12:30:00+02:00", "2024-05-01T10:30:00Z"),
        ("2024-05-01 12:30:00.123456789z", "2024-05-01T12:30:00.123456Z"),
        ("2024-05-01T12:30:00", "2024-05-01T12:30:00Z"),
        ("0001-01-02T00:00:00Z", "0001-01-02T00:00:00Z"),
        ("9999-12-30T23:59:59Z", "9999-12-30T23:59:59Z"),
    ],
)
def test_a_time_is_kept_in_utc(run: Agent, given_time: str, kept: str) -> None:
    run.append({**ask(), "created_at": given_time})
    assert run.get("/entries/1")["created_at"] == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kind": "nothing"},
        {"kind": 5},
        {"kind": "model_input"},
        {**ask(), "position": 1},
        {**ask(), "created_at": "yesterday"},
        {**ask(), "created_at": 5},
        {**ask(), "created_at": "2024-02-30T00:00:00Z"},
        {**ask(), "created_at": "0001-01-01T00:00:00+14:00"},
        {**ask(), "created_at": "２024-05-01T12:30:00Z"},
        {**ask(), "metadata": []},
        {"kind": "system_instruction", "text": 5},
        {"kind": "model_output", "tool_calls": [{"id": 1, "name": "x"}]},
        {"kind": "model_output", "use_tool": {"name": "x", "arguments": []}},
        {"kind": "tool_results", "results": []},
        {"kind": "tool_results", "results": [{"status": "fine"}]},
        {"kind": "review", "score": "5"},
        {"kind": "review", "score": True},
        {"kind": "review", "passed": "yes"},
        {"kind": "rewind", "to_position": 0, "spans": []},
        None,
        5,
        [],
    ],
)
def test_an_invalid_entry_is_refused_and_named(run: Agent, wrong: Any) -> None:
    refused = run.post("/entries", {"entries": [ask(), wrong]})
    assert_problem(refused, 422, "entries[1]")
    assert run.get()["head"] == 0


@pytest.mark.parametrize("wrong", [{}, {"entries": []}, {"entries": [ask()] * 1001}, {"entries": ask()}])
def test_a_batch_has_1_to_1000_entries(run: Agent, wrong: Any) -> None:
    assert_problem(run.post("/entries", wrong), 422, "body.entries")
    assert run.post("/entries", {"entries": [ask()] * 1000})["head"] == 1000


def test_a_repeated_call_id_is_refused(run: Agent) -> None:
    refused = run.post("/entries", {"entries": [called("a", "b", "a")]})
    assert_problem(refused, 422, "two tool calls with the id 'a'")


def test_a_second_output_abandons_the_open_step(run: Agent) -> None:
    run.append(called("a"), called("b"))
    assert [step["status"] for step in run.get("/episodes")["items"]] == ["abandoned", "in_flight"]


def test_the_expected_position_must_be_the_head(run: Agent) -> None:
    run.append(ask())
    refused = run.post("/entries", {"entries": [ask()], "expected_position": 0})
    assert_problem(refused, 409, "head is 1")
    assert refused["head"] == 1
    assert run.post("/entries", {"entries": [ask()], "expected_position": 1})["positions"] == [2]


@pytest.mark.parametrize("wrong", ["1", 1.5, -1, True, 2**31])
def test_an_invalid_expected_position_is_refused(run: Agent, wrong: Any) -> None:
    assert_problem(run.post("/entries", {"entries": [ask()], "expected_position": wrong}), 422)


def test_entries_are_paged_from_either_end(run: Agent) -> None:
    run.append(*[ask(str(number)) for number in range(1, 10)])

    def positions(query: str) -> list[int]:
        return [item["position"] for item in run.get(f"/entries{query}")["items"]]

    assert positions("?after=6") == [7, 8, 9]
    assert positions("?before=3") == [1, 2]
    assert positions("?after=2&before=5") == [3, 4]
    assert positions("?order=newest&limit=2") == [9, 8]
    assert positions("?order=newest&before=5&limit=2") == [4, 3]
    assert positions("?after=100") == []
    assert positions("?as_of=4&order=newest&limit=1") == [4]
    second = run.get("/entries?order=newest&limit=4&after=2")["next"]
    assert positions(f"?order=newest&limit=4&after=2&cursor={second}") == [5, 4, 3]


def test_entries_are_filtered_by_every_kind() -> None:
    assert get_args(Kind) == KINDS


def test_entries_are_found_by_kind(run: Agent) -> None:
    run.append(ask(), called("a"), returned("a"), ask())
    assert [item["position"] for item in run.get("/entries?kind=model_input")["items"]] == [1, 4]
    assert run.get("/entries?kind=review")["items"] == []
    assert_problem(run.get("/entries?kind=reviews"), 422, "query.kind")


def test_a_take_stays_readable_and_is_marked(run: Agent) -> None:
    run.append(ask("1"), ask("2"), ask("3"))
    assert run.post("/rewinds", {"to_position": 1})["position"] == 4
    run.append(ask("5"))
    live = run.get("/entries")["items"]
    everything = run.get("/entries?take=all")["items"]
    assert [item["position"] for item in live] == [1, 5]
    assert [(item["position"], item["live"]) for item in everything] == [
        (1, True), (2, False), (3, False), (4, False), (5, True),
    ]  # fmt: skip
    assert everything[3]["kind"] == "rewind"
    assert (run.get("/entries/2")["content"], run.get("/entries/2")["live"]) == ("2", False)
    assert run.get("/entries/2?as_of=3")["live"] is True
    assert [item["position"] for item in run.get("/entries?as_of=3")["items"]] == [1, 2, 3]


@pytest.mark.parametrize("position", ["4", "2147483647"])
def test_a_position_beyond_the_head_is_not_found(run: Agent, position: str) -> None:
    run.append(ask(), ask(), ask())
    assert_problem(run.get(f"/entries/{position}"), 404, f"position {position}", "head is 3")
    assert_problem(run.get("/entries/3?as_of=2"), 404, "head is 2")


@pytest.mark.parametrize("position", ["0", "-1", "x", "1.5", "2147483648", "9" * 30, "%00", "٣"])
def test_an_invalid_position_is_refused(run: Agent, position: str) -> None:
    assert_problem(run.get(f"/entries/{position}"), 422, "path.position")


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("path", ["/entries", "/episodes?full=true"])
def test_pages_have_a_byte_limit_and_are_complete_together(
    run: Agent, monkeypatch: pytest.MonkeyPatch, path: str, order: str
) -> None:
    monkeypatch.setattr("historyapp.api.responses.MAX_PAGE_BYTES", 5_000)
    run.append(*[{"kind": "model_output", "text": "word " * 400} for _ in range(12)])
    whole, cursor, pages = [], "", 0
    joint = "&" if "?" in path else "?"
    while True:
        page = run.get(f"{path}{joint}order={order}{cursor}").body
        assert 0 < len(page["items"]) <= 4
        whole += page["items"]
        pages += 1
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert pages >= 3
    numbers = [item.get("number", item.get("position")) for item in whole]
    assert numbers == sorted(range(1, 13), reverse=order == "newest")
