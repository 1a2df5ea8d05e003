"""What `/messages` returns. ``test_golden`` compares further texts with those of the earlier histories."""

from typing import Any

import pytest

from historyapp.core.actions import from_exception
from historyapp.core.entries import Body, ModelInput, ModelOutput, ToolResult, UseTool
from historyapp.core.episodes import group_episodes
from historyapp.core.messages import EpisodicMessages, call_result, episodic_messages, text_result
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from tests.core.entries import calls, result, session
from tests.core.policies.past import MemoryPast


def messages(max_tokens: int, full: int = 2) -> EpisodicMessages:
    bodies: list[Body] = [ModelInput(content="go")]
    for number in range(1, 5):
        bodies += [calls(str(number)), result(str(number), f"result {number} " + "word " * 50)]
    settings = SessionSettings(max_tokens=max_tokens, full_message_count=full)
    return episodic_messages(MemoryPast(session(*bodies)), settings, count_tokens)


def results(history: EpisodicMessages) -> list[str]:
    return [message.content.split(" word")[0] for message in history.messages if message.role == "tool"]


def test_the_newest_steps_stay_even_if_they_exceed_the_budget_and_the_manifest_says_so() -> None:
    history = messages(50)
    assert results(history) == ["result 3", "result 4"]
    assert history.used > 50
    assert history.manifest.notes == [
        f"The newest 2 steps and the fixed parts take {history.used} tokens: more than the budget of 50."
    ]
    assert messages(50, full=1).manifest.notes[0].startswith("The newest step and the fixed parts")


def test_a_budget_that_the_newest_steps_keep_is_never_exceeded_and_needs_no_note() -> None:
    enough = messages(50).used
    for budget in range(enough, enough + 120, 7):
        history = messages(budget)
        assert results(history) == ["result 3", "result 4"]
        assert history.used <= budget
        assert history.manifest.notes == []


@pytest.mark.parametrize("full", [0, -3])
def test_without_full_messages_every_step_is_in_the_progress_message(full: int) -> None:
    (progress,) = [message for message in messages(5_000, full).messages if message.role == "system"]
    assert [f"* Step {number}: " in progress.content for number in range(1, 5)] == [True] * 4
    assert not [message for message in messages(5_000, full).messages if message.role != "system"]


@pytest.mark.parametrize(
    ("result", "content", "is_error"),
    [
        ({"status": "success", "outputs": {"a": 1}}, "{'a': 1}", False),
        ({"status": "error", "reason": "no"}, "no", True),
        (
            {"status": "error", "reason": "no", "error": from_exception(KeyError("k"))},
            "no\n\nKeyError('k')",
            True,
        ),
        ({"status": "interrupted_by_human", "feedback": "stop"}, "stop", True),
    ],
)
def test_the_result_of_a_tool_call_is_a_message_of_the_tool(
    result: dict[str, Any], content: str, is_error: bool
) -> None:
    message = call_result(ToolResult(**result), "c1")
    assert (message.role, message.content, message.tool_call_id, message.is_error) == (
        "tool", content, "c1", is_error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"status": "success", "outputs": 3}, "ls returned: `3`"),
        ({"status": "success", "outputs": "a\nb"}, "ls returned: ```\na\nb\n```"),
        ({"status": "error", "reason": "no"}, "ls raised an error: ```\nno\n```"),
        ({"status": "interrupted_by_human", "feedback": "stop"}, "stop"),
    ],
)
def test_the_result_of_an_action_written_as_text_is_a_message_of_the_user(
    result: dict[str, Any], content: str
) -> None:
    (episode,) = group_episodes(session(ModelOutput(use_tool=UseTool(name="ls"))))
    message = text_result(ToolResult(**result), episode)
    assert (message.role, message.content, message.tool_call_id) == ("user", content, None)
