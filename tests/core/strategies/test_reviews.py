import time

from historyapp.core.strategies.reviews import stated_fields


def test_labelled_lines_are_fields_after_any_prefix() -> None:
    text = "Well.\n  **Task state**: done\n- Goal：find it\n> Key results =\n two bugs\nA goal: no\n"
    assert stated_fields(text) == {"Task state": "done", "Goal": "find it", "Key results": "two bugs"}


def test_20_000_blank_lines_are_read_quickly() -> None:
    """They took minutes when each line was compared with all later ones, and the worker did not finish."""
    started = time.process_time()
    assert stated_fields("\n" * 20_000) == {}
    assert stated_fields("-\n" * 10_000) == {}
    assert time.process_time() - started < 2
