"""A cursor is opaque and belongs to one list. All pages show the same state of the session."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.api.cursors import decode_cursor, encode_cursor
from historyapp.wire.problems import NotValid
from tests.api.agent import Agent, ask
from tests.api.conftest import Owner
from tests.api.test_problems import assert_problem
from tests.examples import examples


@given(st.integers(0, 2**31 - 1), st.text())
def test_decoding_reverses_encoding(number: int, text: str) -> None:
    assert decode_cursor("call", encode_cursor("call", number, text), int, str) == [number, text]


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_that_is_not_a_cursor_is_refused(text: str) -> None:
    with pytest.raises(NotValid):
        decode_cursor("call", text, int)


@pytest.mark.parametrize(
    "cursor",
    [
        encode_cursor("other", 5),
        encode_cursor("call"),
        encode_cursor("call", 5, 5),
        encode_cursor("call", "5"),
        encode_cursor("call", -1),
        encode_cursor("call", 2**40),
        encode_cursor("call", True),
    ],
)
def test_a_cursor_with_another_name_or_another_type_is_refused(cursor: str) -> None:
    with pytest.raises(NotValid, match="belongs to another list"):
        decode_cursor("call", cursor, int)


LISTS = ["/entries", "/episodes", "/summaries", "/rewinds"]


@pytest.fixture(scope="module")
def recorded(owner: Owner) -> Agent:
    run = owner.begin_run()
    for number in range(4):
        run.append(ask())
        run.step()
        run.post("/summaries", {"from_step": -1, "to_step": -1, "text": str(number)})
    for _ in range(3):
        run.post("/rewinds")
    return run


@pytest.fixture
def long(recorded: Agent, db: None) -> Agent:
    return recorded


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_of_another_list_is_a_422(alice: Agent, long: Agent, path: str) -> None:
    cursors = {other: long.get(f"{other}?limit=1")["next"] for other in LISTS}
    cursors["/sessions"] = encode_cursor("sessions", "2026-01-01T00:00:00+00:00", "x")
    assert long.get(f"{path}?limit=1&cursor={cursors.pop(path)}").status == 200
    for cursor in [*cursors.values(), "", "x", "%00", "é"]:
        assert_problem(long.get(f"{path}?cursor={cursor}"), 422)
    assert_problem(alice.get(f"/sessions?cursor={cursors['/sessions']}"), 422, "cursor")


@pytest.mark.parametrize("path", LISTS)
@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 6))
def test_all_pages_together_are_complete(long: Agent, path: str, limit: int) -> None:
    whole = long.get(f"{path}?limit=500")
    assert whole["next"] is None
    assert len(whole["items"]) >= 3
    page = long.get(f"{path}?limit={limit}")
    paged = list(page["items"])
    while page["next"] is not None:
        assert len(page["items"]) == limit
        page = long.get(f"{path}?limit={limit}&cursor={page['next']}")
        paged += page["items"]
    assert paged == whole["items"]


@pytest.mark.parametrize("path", ["/entries?limit=3", "/episodes?limit=2", "/entries?limit=3&take=all"])
def test_all_pages_show_the_state_of_the_first(long: Agent, path: str) -> None:
    whole = long.get(path.replace("limit=3", "limit=500").replace("limit=2", "limit=500"))["items"]
    first = long.get(path)
    long.post("/rewinds", {"episodes": 3})
    second = long.get(f"{path}&cursor={first['next']}")
    assert first["items"] + second["items"] == whole[: len(first["items"]) * 2]
