import json
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import ModelInput, Rewind
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    AddSummary,
    Append,
    LinesRead,
    Operation,
    RewindTo,
    SessionStart,
)
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL, CopiedPositions
from tests.core.importers.reading import bodies, kinds, lines, metadata, read, skipped, starts
from tests.core.importers.samples import EXPORT, exported


def header(id: str = "p", **fields: Any) -> dict[str, Any]:
    return {"playhead": 1, "kind": "session", "id": id, **fields}


def asks(position: int, text: str = "hi", session: str = "p") -> dict[str, Any]:
    return exported(session, position, "model_input", content=text)


def rewind(position: int, to: int, session: str = "p") -> dict[str, Any]:
    return exported(session, position, "rewind", to_position=to, spans=[])


def load(*records: Any) -> list[Operation]:
    return read(PLAYHEAD_JSONL, lines(*records))


def rewinds(operations: list[Operation]) -> list[tuple[str, int]]:
    return [(op.session, op.to_position) for op in operations if isinstance(op, RewindTo)]


def test_a_header_has_all_fields_of_the_session() -> None:
    start, fork = starts(load(*EXPORT))
    assert start == SessionStart(
        "p",
        title="t",
        agent="a",
        model="m",
        tags=("x",),
        settings={"max_tokens": 7},
        metadata={"k": 1},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        status="active",
    )
    assert (fork.session, fork.forked_from) == ("q", ("p", 1))


@pytest.mark.parametrize(("header_value", "spawned_by"), [("q", "q"), (None, None), (7, None), ("", None)])
def test_a_header_names_the_parent_of_a_sub_agent(header_value: Any, spawned_by: str | None) -> None:
    assert starts(load(header(spawned_by=header_value), asks(1)))[0].spawned_by == spawned_by


def test_entries_come_with_their_times_and_metadata() -> None:
    operations = load(header(), {**asks(1), "metadata": {"source": "x"}})
    assert bodies(operations) == [ModelInput(content="hi")]
    assert metadata(operations) == [{"source": "x"}]
    assert isinstance(operations[1], Append)
    assert operations[1].draft.created_at == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_a_rewind_keeps_its_time_reason_and_actor() -> None:
    [operation] = [op for op in load(*EXPORT) if isinstance(op, RewindTo)]
    assert (operation.to_position, operation.reason, operation.actor) == (1, "why", "bob")
    assert operation.draft
    assert isinstance(operation.draft.body, Rewind)
    assert operation.draft.created_at == datetime(2026, 1, 1, 0, 0, 4, tzinfo=UTC)


def test_a_summary_covers_its_positions() -> None:
    [summary] = [op for op in load(*EXPORT) if isinstance(op, AddSummary)]
    assert summary == AddSummary("p", 2, 3, "tried", key_points=("k",))


def test_positions_have_no_gap_where_lines_are_missing() -> None:
    records = [header(), asks(1), "torn", asks(3), rewind(4, 3), asks(5), rewind(6, 2), asks(7)]
    summary = {"session": "p", "kind": "summary", "first_position": 2, "last_position": 5, "text": "s"}
    operations = load(*records, summary)
    assert rewinds(operations) == [("p", 2), ("p", 1)]
    [added] = [op for op in operations if isinstance(op, AddSummary)]
    assert (added.first_position, added.last_position) == (1, 4)


def test_a_fork_continues_the_positions_of_its_parent_also_where_lines_are_missing() -> None:
    records = [header("p"), asks(1), asks(3), asks(4), header("q", forked_from=["p", 3])]
    operations = load(
        *records, asks(4, session="q"), asks(6, session="q"), rewind(7, 4, "q"), rewind(8, 1, "q")
    )
    assert starts(operations)[1].forked_from == ("p", 2)
    assert rewinds(operations) == [("q", 3), ("q", 1)]


@pytest.mark.parametrize("has_entries", [False, True])
def test_forks_of_forks_have_no_maximum_depth(has_entries: bool) -> None:
    depth = 5000
    records, parent = [header("p")], "p"
    for i in range(depth):
        records.append(header(f"f{i}", forked_from=[parent, i if has_entries else 0]))
        parent = f"f{i}"
        if has_entries:
            records.append(asks(i + 1, session=parent))
    last = depth if has_entries else 0
    targets = [last, last // 2, min(last, 1), 0]
    operations = load(*records, *(rewind(depth + 1 + i, to, parent) for i, to in enumerate(targets)))
    assert not skipped(operations)
    assert len(starts(operations)) == depth + 1
    assert rewinds(operations) == [(parent, to) for to in targets]


@given(st.data())
def test_positions_of_forks_are_those_of_their_copied_entries(data: st.DataObject) -> None:
    """Compares with a list of positions for each session, which forks copy."""
    lists: list[list[int]] = [[]]
    sessions = [CopiedPositions()]
    for _ in range(data.draw(st.integers(1, 25))):
        chosen = data.draw(st.integers(0, len(lists) - 1))
        position = data.draw(st.integers(0, 12))
        if data.draw(st.booleans()):
            lists.append([one for one in lists[chosen] if one <= position])
            sessions.append(CopiedPositions(sessions[chosen], position))
        elif sessions[chosen].accept(position):
            lists[chosen].append(position)
        for positions, expected in zip(sessions, lists, strict=True):
            assert [positions[i] for i in range(14)] == [bisect_right(expected, i) for i in range(14)]


def test_a_fork_whose_parent_is_not_in_the_file_begins_at_position_1() -> None:
    operations = load(header("q", forked_from=["gone", 40]), asks(41, session="q"), rewind(42, 41, "q"))
    assert starts(operations)[0].forked_from is None
    assert rewinds(operations) == [("q", 1)]


@pytest.mark.parametrize(
    "record",
    [
        {"session": "p", "position": 2, "kind": "gossip"},
        {"session": "p", "position": 2, "kind": "model_input", "content": "x", "more": 1},
        {"session": "p", "position": 2, "kind": "model_output", "text": 7},
        {"session": "p", "position": 1, "kind": "model_input", "content": "again"},
        {"session": "p", "position": 0, "kind": "model_input", "content": "x"},
        {"session": "p", "position": "2", "kind": "model_input", "content": "x"},
        {"session": "stranger", "position": 1, "kind": "model_input", "content": "x"},
        {"session": "p", "kind": "summary", "first_position": 1, "text": "x"},
        {"position": 2, "kind": []},
        header("p"),
        header(""),
        [1],
    ],
)
def test_a_broken_line_is_named_and_the_others_are_read(record: Any) -> None:
    operations = load(header(), asks(1), record, asks(2, "after"))
    assert [(item.line, item.damaged) for item in skipped(operations)] == [(3, True)]
    assert "after" in str(bodies(operations)[-1])


def test_any_text_is_read_unchanged() -> None:
    odd = "\ud800 \x00 \u2028 </script>"
    assert bodies(load(header(), asks(1, odd))) == [ModelInput(content=odd)]


def test_an_export_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UnreadableTranscript, match="newer"):
        load({**header(), "playhead": 2})


def test_a_session_can_be_empty() -> None:
    assert [*starts(load(header())), LinesRead(1, 0)] == load(header())


def test_a_file_without_a_session_is_refused() -> None:
    with pytest.raises(UnreadableTranscript):
        load(asks(1))


def test_a_file_is_read_line_by_line() -> None:
    """Operations come while later lines have not been read."""

    class Endless:
        def __init__(self) -> None:
            self.given = 0

        def seek(self, offset: int) -> int:
            return offset

        def readline(self, size: int = -1) -> bytes:
            self.given += 1
            record = header() if self.given == 1 else asks(self.given - 1)
            return json.dumps(record).encode() + b"\n"

    from historyapp.core.importers.base import Source

    stream = Endless()
    operations = PLAYHEAD_JSONL.read(Source("endless", stream))  # type: ignore[arg-type]
    assert [type(next(operations)) for _ in range(3)] == [SessionStart, Append, Append]
    assert stream.given == 3


def test_every_kind_is_read() -> None:
    assert kinds(load(*EXPORT)) == ["model_input", "model_output", "tool_results", "model_output", "review"]
