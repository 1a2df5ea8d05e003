from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.importers.messages import CallMatcher, SourceCall, moment, session_of, title_of
from tests.core.importers.reading import source


def calls(*ids: str | None) -> list[SourceCall]:
    return [SourceCall(id, "look", {}) for id in ids]


@pytest.mark.parametrize(
    "value",
    [1738046713, 1738046713.0, 1738046713000, "2025-01-28T06:45:13Z", "2025-01-28T07:45:13+01:00"],
)
def test_a_time_is_read_in_every_notation(value: Any) -> None:
    assert moment(value) == datetime(2025, 1, 28, 6, 45, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "yesterday",
        True,
        0,
        -5,
        1e300,
        10**400,
        [],
        {},
        "2025-01-28T06:45:13",
        "0001-01-01T00:00:00+23:00",
    ],
)
def test_an_ambiguous_time_is_unknown(value: Any) -> None:
    assert moment(value) is None


def test_a_time_without_a_zone_is_read_in_the_passed_zone() -> None:
    zone = timezone(timedelta(hours=-8))
    assert moment("2025-01-27T22:45:13", zone) == datetime(2025, 1, 28, 6, 45, 13, tzinfo=UTC)


def test_a_title_is_one_short_line() -> None:
    assert title_of([{"type": "text", "text": "Fix\n  it \ud800"}]) == "Fix it \ufffd"
    assert len(title_of("x" * 500)) == 80
    assert title_of(None) == ""


@pytest.mark.parametrize("name", ["a.json", "/home/me/a.json", "C:\\runs\\a.json"])
def test_a_session_is_named_by_its_file_without_the_folder(name: str) -> None:
    assert session_of(source({}, name)) == "a.json"


def test_a_result_goes_to_the_newest_open_call_of_its_id() -> None:
    ids = CallMatcher("s")
    ids.add_output([SourceCall("a", "old", {})])
    ids.add_output([SourceCall("a", "new", {})])
    assert [ids.match_result("a") for _ in range(3)] == [("a", "new"), ("a", "old"), ("a", None)]


def test_a_result_without_an_id_goes_to_the_first_open_call_of_its_name() -> None:
    ids = CallMatcher("s")
    ids.add_output([SourceCall("a", "look", {}), SourceCall("b", "find", {}), SourceCall("c", "find", {})])
    results = [(None, "find"), ("",), (7,), (None,)]
    assert [ids.match_result(*result) for result in results] == [
        ("b", "find"), ("a", "look"), ("c", "find"), (None, None),
    ]  # fmt: skip


def test_one_result_can_answer_all_open_calls() -> None:
    ids = CallMatcher("s")
    ids.add_output(calls("old"))
    ids.add_output(calls("a", "b"))
    assert ids.has_open
    assert ids.match_open() == [("a", "look"), ("b", "look")]
    assert not ids.has_open
    assert ids.match_result("old") == ("old", "look")


def test_calls_without_ids_repeat_little_of_a_long_id_of_their_session() -> None:
    made, _ = CallMatcher("s" * 100_000).add_output(calls(*[None] * 10))
    assert max(len(call.id) for call in made) < 310


@given(st.lists(st.lists(st.sampled_from([None, "", "a", "b", "s-1-2", "s-2-1"]), max_size=4), max_size=4))
def test_every_call_gets_its_own_id_and_is_paired_with_its_result(turns: list[list[str | None]]) -> None:
    ids = CallMatcher("s")
    for turn in turns:
        tool_calls, renamed = ids.add_output(calls(*turn))
        assert len({call.id for call in tool_calls}) == len(turn)
        assert all(call.id for call in tool_calls)
        for call, given_id in zip(tool_calls, turn, strict=True):
            assert renamed.get(call.id, call.id) == given_id or not given_id
            assert ids.match_result(given_id)[0] in {call.id for call in tool_calls}
        assert not ids.has_open
