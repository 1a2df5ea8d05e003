"""No endpoint sends the database more queries for a long session than for a short one."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.agent import Agent, ask
from tests.limited_blocks import without_limits

READS = [
    "",
    "/entries",
    "/entries?order=newest&kind=model_output",
    "/entries?take=all&after=10",
    "/entries/7",
    "/episodes",
    "/episodes?from=-15&full=true",
    "/episodes/3",
    "/episodes/-1",
    "/episodes/-1/request?limit=5",
    "/episodes/12/request?limit=5&as_of=30",
    "/progress?from=-10",
    "/progress?style=compiled&max_tokens=50",
    "/messages?max_tokens=50",
    "/contexts?policy=live&max_tokens=100",
    "/contexts?policy=masked&max_tokens=100&as_of=25",
    "/contexts?policy=budgeted&max_tokens=500",
    "/contexts?policy=budgeted&max_tokens=500&model=gpt-5",
    "/snapshots",
    "/ledger",
    "/ledger/steps?limit=10",
    "/ledger?as_of=25",
    "/summaries",
    "/compressions",
    "/compressions/estimate?strategy=simple_extract",
    "/rewinds",
    "/shares",
    "/messages?max_tokens=50&as_of=25",
    "/episodes/-1?as_of=25",
]
WRITES: list[tuple[str, Any]] = [
    ("/entries", {"entries": [ask()] * 10}),
    ("/actions", {"use_tool": {"name": "ls"}}),
    ("/results", {"status": "success"}),
    ("/steps", {"analysis_result": "", "execution_result": "", "supervision_result": ""}),
    ("/contexts", {"policy": "episodic", "max_tokens": 100}),
    ("/summaries", {"from_step": -1, "to_step": -1, "text": "x"}),
    ("/forks", {}),
    ("/shares", {"as_of": 10}),
    ("/rewinds", {"episodes": 3}),
]


def with_steps(alice: Agent, count: int) -> Agent:
    run = alice.within(f"/sessions/{alice.post('/sessions')['id']}")
    output = {"kind": "model_output", "use_tool": {"name": "ls"}}
    result = {"kind": "tool_results", "results": [{"status": "success", "outputs": "fine"}]}
    run.append(ask())
    for start in range(0, count, 200):
        run.append(*[entry for _ in range(start, min(count, start + 200)) for entry in (output, result)])
    return run


def cost(call: Any) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert call().status in (200, 201)
    return [query["sql"].split(" WHERE ")[0] for query in queries]


@pytest.mark.parametrize(
    ("forked", "lengths"), [(False, (20, 600)), (True, (600, 1200))], ids=["own", "forked"]
)
def test_every_read_takes_the_same_number_of_queries_at_any_length(
    alice: Agent, forked: bool, lengths: tuple[int, int]
) -> None:
    runs = [with_steps(alice, steps) for steps in lengths]
    if forked:
        runs = [alice.within(f"/sessions/{run.post('/forks')['id']}") for run in runs]
        for run in runs:
            run.step()
    short, long = runs
    for path in READS:
        costs = [cost(lambda run=run, path=path: run.get(path)) for run in (short, long)]
        assert len(costs[0]) == len(costs[1]) <= 18, path
    for path, body in WRITES:
        costs = [cost(lambda run=run, path=path, body=body: run.post(path, body)) for run in (short, long)]
        assert len(costs[0]) == len(costs[1]), path


def test_a_history_reads_only_the_shown_older_steps(alice: Agent) -> None:
    short, long = (with_steps(alice, steps) for steps in (200, 1000))
    costs = [cost(lambda run=run: run.get("/history")) for run in (short, long)]
    assert len(costs[0]) == len(costs[1]) <= 20


def test_a_list_of_sessions_takes_three_queries(alice: Agent) -> None:
    for number in range(30):
        alice.post("/sessions", {"title": str(number)})
    assert len(without_limits(cost(lambda: alice.get("/sessions")))) == 3


def test_an_append_issues_only_the_queries_that_it_needs(run: Agent) -> None:
    """Its queries: key, savepoint (tests are transactions), session, entry, step, session and change."""
    assert len(cost(run.act)) == 1 + 2 + 5
    assert len(cost(run.succeed)) == 1 + 2 + 5


def test_a_change_loads_its_session_once_and_a_rewind_twice(run: Agent) -> None:
    """A rewind and a fork read the end of the history before they lock the session. A fork reads the texts of
    its response before that.
    """
    run.step()
    for call, loads in (
        (lambda: run.patch("", {"title": "better"}), 1),
        (lambda: run.post("/rewinds", {"episodes": 1}), 2),
        (lambda: run.post("/forks"), 3),
    ):
        session_queries = [query for query in cost(call) if query.endswith('FROM "historyapp_session"')]
        assert len([query for query in session_queries if "tail" in query]) == loads
        assert len([query for query in session_queries if "metadata" in query]) <= 1
