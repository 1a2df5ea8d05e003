"""The window of a request excludes what the agent compacted, cleared or forgot."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.embedded_json import MAX_EMBEDDED_VALUES
from historyapp.core.json import dump_json
from historyapp.core.windows import CLEARED, MAX_IDS, LogRow, Window, find_window

AT = datetime(2026, 11, 23, tzinfo=UTC)
PLENTY = 1_000_000


def row(position: int, kind: str = "model_input", *, tokens: int = 10, **fields: Any) -> LogRow:
    metadata = fields.pop("metadata", {})
    return LogRow(position, kind, AT, tokens, metadata, fields)


def ask(position: int, content: Any = "go on", channel: str = "user") -> LogRow:
    return row(position, content=content, channel=channel)


def noted(position: int, message: str = "", category: str = "compaction", **metadata: Any) -> LogRow:
    return row(position, "debug_log", tokens=0, category=category, message=message, metadata=metadata)


def answer(position: int, uuid: str = "") -> LogRow:
    return row(position, "model_output", metadata={"source": {"uuid": uuid}} if uuid else {})


def window(rows: Sequence[LogRow], max_tokens: int = PLENTY) -> Window:
    return find_window(reversed(rows), max_tokens)


def positions(shown_window: Window) -> list[int]:
    return [row.position for row in shown_window.rows]


def test_without_a_compaction_everything_is_in_the_window() -> None:
    shown_window = window([ask(1), answer(2), noted(3, category="hook"), ask(4)])
    assert (positions(shown_window), shown_window.begins, shown_window.position) == (
        [1, 2, 4],
        "session",
        None,
    )


def test_a_summary_replaces_older_entries() -> None:
    shown_window = window([ask(1), answer(2), noted(3), ask(4, "summary", "compaction"), answer(5)])
    assert (positions(shown_window), shown_window.begins, shown_window.position) == ([4, 5], "compaction", 4)


def test_the_newest_of_two_compactions_counts() -> None:
    shown_window = window([ask(1, "old", "compaction"), answer(2), ask(3, "new", "compaction")])
    assert positions(shown_window) == [3]


def test_messages_that_claude_code_preserved_follow_the_summary() -> None:
    kept = {"compactMetadata": {"preservedMessages": {"uuids": ["b", "c"]}}}
    boundary = noted(4, f"Conversation compacted\n{dump_json(kept)}")
    shown_window = window(
        [answer(1, "a"), answer(2, "b"), answer(3, "c"), boundary, ask(5, "s", "compaction")]
    )
    assert positions(shown_window) == [5, 2, 3]


def test_a_boundary_that_is_not_json_or_has_too_many_values_preserves_nothing() -> None:
    kept = {"compactMetadata": {"preservedMessages": {"uuids": ["a"]}}}
    for facts in (
        "[1",
        "[" * 100_000,
        '{"compactMetadata": 3}',
        '{"compactMetadata": {"preservedMessages": [1]}}',
        dump_json(kept | {"more": [0] * MAX_EMBEDDED_VALUES}),
    ):
        shown_window = window([answer(1, "a"), noted(2, f"compacted\n{facts}"), ask(3, "s", "compaction")])
        assert positions(shown_window) == [3]


def test_the_replacement_history_of_codex_replaces_the_entries() -> None:
    items = [{"type": "message", "role": "user", "content": "short"}]
    shown_window = window([ask(1), answer(2), noted(3, replacement_history=items), ask(4)])
    assert positions(shown_window) == [4]
    assert (shown_window.begins, shown_window.replacement, shown_window.replaced_by) == (
        "compaction",
        tuple(items),
        3,
    )


def test_the_summary_of_codex_is_not_shown_twice() -> None:
    items = [{"type": "message", "role": "user", "content": "short"}]
    shown_window = window(
        [answer(1), noted(2, replacement_history=items), ask(3, "short", "compaction"), answer(4)]
    )
    assert (positions(shown_window), shown_window.position) == ([4], 3)


def test_clearing_only_old_results_begins_no_window() -> None:
    assert window([answer(1), noted(2, "Context microcompacted"), answer(3)]).begins == "session"


def test_a_cleared_context_begins_with_the_command() -> None:
    shown_window = window([ask(1), ask(2, CLEARED, "command"), ask(3)])
    assert (positions(shown_window), shown_window.begins) == ([2, 3], "cleared")


def test_the_note_before_the_command_that_clears_is_in_the_context() -> None:
    caveat = ask(2, "<local-command-caveat>Caveat: …</local-command-caveat>", "command")
    shown_window = window([answer(1), caveat, ask(3, CLEARED, "command"), ask(4)])
    assert (positions(shown_window), shown_window.position) == ([2, 3, 4], 3)
    assert positions(window([answer(1), ask(2, CLEARED, "command")])) == [2]


def test_a_person_who_writes_about_the_command_clears_nothing() -> None:
    assert window([ask(1), ask(2, CLEARED)]).begins == "session"


def test_entries_that_a_condenser_forgot_are_left_out_by_id() -> None:
    forgetful = noted(4, "Done so far.", "Condensation", source={"condensed": {"forgotten": ["b", 7]}})
    rows = [answer(1, "a"), answer(2, "b"), row(3, "tool_results", metadata={"source": {"id": 7}}), forgetful]
    shown_window = window(rows)
    assert (positions(shown_window), shown_window.forgotten, shown_window.begins) == ([1], 2, "session")


def test_a_condenser_of_openhands_v0_forgets_a_range_of_numbers() -> None:
    def event(position: int, id: int) -> LogRow:
        return row(position, "tool_results", metadata={"source": {"id": id}})

    def condensed(position: int, first: int, last: int) -> LogRow:
        return noted(position, "", "condensation", source={"condensed": {"first": first, "last": last}})

    rows = [event(n, 2 * n) for n in range(1, 7)]
    assert positions(window([*rows, condensed(7, 3, 8)])) == [1, 5, 6]
    apart = window([*rows, condensed(7, 3, 4), condensed(8, 9, 10)])
    assert (positions(apart), apart.forgotten, apart.condensed_by) == ([1, 3, 4, 6], 2, 8)
    overlapping = window([*rows, condensed(7, 3, 6), condensed(8, 5, 10)])
    assert positions(overlapping) == [1, 6]


def test_a_summary_stays_if_a_later_condensation_has_none() -> None:
    facts = {"forgotten": ["a"], "summarised": True}
    rows = [
        answer(1, "a"),
        noted(2, "so far", "Condensation", source={"condensed": facts}),
        answer(3, "b"),
        noted(4, "", "Condensation", source={"condensed": {"forgotten": ["b"]}}),
        answer(5),
    ]
    shown_window = window(rows)
    assert (positions(shown_window), shown_window.replaced_by, shown_window.condensed_by) == ([5], 2, 4)


def test_a_context_that_a_hook_reports_as_cleared_begins_a_window() -> None:
    shown_window = window([ask(1), answer(2), noted(3, "The context was cleared.", "clear"), ask(4)])
    assert (positions(shown_window), shown_window.begins, shown_window.position) == ([4], "cleared", 3)
    assert window([ask(1), noted(2, "the cache", "clear"), ask(3)]).begins == "session"


def test_a_window_has_the_place_of_the_last_change_of_the_history() -> None:
    assert window([ask(1), answer(2)]).changed_at == 0
    assert window([ask(1), ask(2, "summary", "compaction"), answer(3)]).changed_at == 2
    assert find_window(reversed([answer(n) for n in range(1, 100)]), 30).changed_at == 0


def test_the_newest_summary_of_a_condenser_replaces_what_it_forgot() -> None:
    def condensed(position: int, text: str, *ids: str) -> LogRow:
        facts = {"forgotten": list(ids), "summarised": True}
        return noted(position, text, "Condensation", source={"condensed": facts})

    rows = [
        answer(1, "a"),
        condensed(2, "first", "a"),
        answer(3, "c"),
        condensed(4, "second", "c"),
        answer(5),
    ]
    shown_window = window(rows)
    assert (positions(shown_window), shown_window.forgotten, shown_window.replaced_by) == ([5], 2, 4)
    assert [item["content"] for item in shown_window.replacement] == ["second"]


def test_reading_ends_when_the_window_of_the_model_is_full() -> None:
    read: list[int] = []

    def newest_first() -> Any:
        for position in range(1_000, 0, -1):
            read.append(position)
            yield answer(position)

    shown_window = find_window(newest_first(), 100)
    assert (shown_window.begins, len(shown_window.rows), len(read)) == ("older", 11, 11)
    assert shown_window.position == 990


def test_reading_of_forgotten_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.core.windows.MAX_FORGOTTEN", 3)
    rows = [row(n, "model_output", metadata={"source": {"id": n}}) for n in range(1, 10)]
    shown_window = window([*rows, noted(10, source={"condensed": {"first": 2, "last": 8}})])
    assert (positions(shown_window), shown_window.begins, shown_window.forgotten) == ([9], "older", 3)
    assert shown_window.outputs == [6, 7, 8, 9]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=30))
def test_an_event_in_any_forgotten_range_is_not_seen(ranges: list[tuple[int, int]]) -> None:
    events = [row(n, "model_output", metadata={"source": {"id": n}}) for n in range(1, 80)]
    condensations = [
        noted(100 + n, source={"condensed": {"first": first, "last": first + more}})
        for n, (first, more) in enumerate(ranges)
    ]
    seen = {n for n in range(1, 80) if not any(first <= n <= first + more for first, more in ranges)}
    assert {row.position for row in window([*events, *condensations]).rows} == seen


def test_a_bounded_number_of_ids_of_a_row_is_read() -> None:
    assert len(row(1, metadata={"source": {"ids": list(range(5_000))}}).ids) == MAX_IDS
