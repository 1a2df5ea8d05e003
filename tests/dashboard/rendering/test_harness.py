"""The additions of a harness are set apart from what somebody wrote."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.harness import MAX_CLOSING, MAX_PARTS, MAX_SEARCHED, message_parts, user_text


def parts(text: str) -> list[tuple[str, str]]:
    return [(part.tag, part.text) for part in message_parts(text)]


def test_a_reminder_is_separate_from_the_text_around_it() -> None:
    text = "Fix it.\n<system-reminder>\nBe good.\n</system-reminder>\nSoon."
    assert parts(text) == [("", "Fix it."), ("system-reminder", "Be good."), ("", "Soon.")]


@pytest.mark.parametrize("tag", ["environment_context", "user-prompt-submit-hook", "local-command-stdout"])
def test_environment_and_hooks_are_additions(tag: str) -> None:
    assert parts(f"<{tag}>x</{tag}>") == [(tag, "x")]


def test_a_command_is_shown_as_the_person_typed_it() -> None:
    text = "<command-name>/review</command-name>\n  <command-args>the last commit</command-args>"
    assert parts(text) == [("", "/review the last commit")]
    assert user_text("if a < b: pass") == "if a < b: pass"


def test_a_task_that_codex_passed_on_is_shown_without_its_marks() -> None:
    text = (
        "<codex_delegation>\n  <source_thread_id>1f</source_thread_id>\n"
        "  <input>Fix <b>it</b>.</input>\n</codex_delegation>"
    )
    assert message_parts(text) == [("1f", "codex_delegation"), ("Fix <b>it</b>.", "")]


def test_unclosed_and_unknown_tags_are_text() -> None:
    for text in ("<system-reminder> open", "<p>hello</p>", "</system-reminder>"):
        assert parts(text) == [("", text)]


@given(
    st.lists(st.sampled_from(["<system-reminder>", "</system-reminder>", "<bash-stdout>", "word "])).map(
        "".join
    )
)
def test_no_text_is_lost(text: str) -> None:
    assert sum(part.text.count("word") for part in message_parts(text)) == text.count("word")


def test_many_additions_are_read_in_linear_time() -> None:
    started = thread_time()
    assert len(message_parts("<system-reminder>" * 100_000)) == 1
    assert len(message_parts("<bash-stdout>x</bash-stdout>" * 10_000)) == MAX_PARTS + 1
    assert thread_time() < started + 1


def test_additions_and_marks_are_searched_in_the_beginning_of_a_message() -> None:
    """The search of 31 MB of ``<`` stopped all other threads for a second."""
    long, late = f"<bash-stdout>{'y' * MAX_SEARCHED}</bash-stdout>", "<bash-stdout>x</bash-stdout>"
    assert [tag for tag, _ in parts(f"{long}{late}")] == ["bash-stdout", ""]
    assert parts(f"{long}{late}")[1][1] == late
    unended = f"<bash-stdout>{'y' * MAX_CLOSING}</bash-stdout>"
    assert parts(unended) == [("", unended)]
    marked = f"{'z' * MAX_SEARCHED}<command-name>"
    assert user_text(f"<command-name>{marked}") == marked
