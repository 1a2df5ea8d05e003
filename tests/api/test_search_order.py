"""The steps that a search with AND shows: where there are any, in the order of the query."""

from urllib.parse import urlencode

import pytest

from tests.api.agent import Agent


def test_parts_show_steps_in_the_order_of_the_query_if_there_are_any(
    alice: Agent, run: Agent, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for outputs in ("wombat", "quokka", "wombat", "wombat", "gecko"):
        run.step(outputs=outputs)
    expected = [
        ("wombat AND quokka", [1, 2]),
        ("quokka AND wombat", [2, 3]),
        ("wombat AND quokka AND gecko", [1, 2, 5]),
        ("gecko AND quokka AND wombat", [5, 2, 3]),  # no gecko before the quokka
    ]
    for rows in (50, 2):
        monkeypatch.setattr("historyapp.models.search_sessions.MAX_ROWS", rows)
        for q, steps in expected:
            page = alice.get(f"/search?{urlencode({'q': q})}")
            assert [item["episode"] for item in page["items"]] == steps, (rows, q)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (["edit", "fail", "look", "edit", "look", "look", "fail"], [1, 2]),
        (["edit", "fail", "edit", "fail", "look", "edit", "look", "fail"], [3, 4]),  # of two such, the newest
        (["fail", "edit", "look", "look", "fail"], [2, 5]),  # rather in this order than closer
        (["edit fail", "edit", "fail"], [2, 3]),  # a failed edit is not the failure after it
        (["edit", "edit fail", "look", "fail"], [1, 2]),
        (["edit fail", "look", "edit", "look", "fail"], [1]),
        (["fail", "look", "fail", "edit", "look", "edit"], [4, 3]),
    ],
)
def test_the_steps_that_are_closest_together_are_shown(
    alice: Agent, run: Agent, session_id: str, outputs: list[str], expected: list[int]
) -> None:
    for text in outputs:
        run.step(outputs=text)
    page = alice.get("/search?q=edit+AND+fail")
    assert [item["episode"] for item in page["items"]] == expected
