"""Steps as text. ``test_golden`` compares further texts with those of the earlier histories."""

from typing import Any

import pytest

from historyapp.core.actions import from_exception
from historyapp.core.entries import ModelOutput, Thoughts, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.rendering import as_list, as_paragraphs, long_form, short_form
from tests.core.entries import session

HEAD = "Executed `ls(path='src')`\n- **Reasoning:** \"Look.\"\n- **Status:** `{}`\n"


def step(result: dict[str, Any] | None = None, **action: Any) -> Episode:
    fields = {"thoughts": "Look.", "use_tool": UseTool(name="ls", arguments={"path": "src"}), **action}
    results = [ToolResults(results=(ToolResult(**result),))] if result else []
    (episode,) = group_episodes(session(ModelOutput(**fields), *results))
    return episode


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"status": "success", "outputs": 3}, "- **Output:** 3"),
        ({"status": "success", "outputs": "a\n\nb"}, "- **Output:** \n    ```\n    a\n    \n    b\n    ```"),
        ({"status": "error", "reason": "no"}, "- **Reason:** no\n"),
        (
            {"status": "error", "reason": "no", "error": from_exception(KeyError())},
            "- **Reason:** no\n- **Error:** KeyError()\n",
        ),
        ({"status": "interrupted_by_human", "feedback": "stop"}, "- **Feedback:** stop\n"),
    ],
)
def test_the_long_form_ends_with_the_result(result: dict[str, Any], text: str) -> None:
    assert long_form(step(result)) == HEAD.format(result["status"]) + text


def test_a_step_without_a_result_did_not_finish() -> None:
    assert long_form(step()) == HEAD.format("did_not_finish")
    assert short_form(step()) == "Executed `ls(path='src')`."


@pytest.mark.parametrize(
    ("thoughts", "shown"), [(None, ""), (Thoughts(summary="Short.", plan=["long"]), "Short.")]
)
def test_the_reasoning_is_a_short_form_of_the_thoughts(thoughts: Thoughts | None, shown: str) -> None:
    assert f'- **Reasoning:** "{shown}"\n' in long_form(step(thoughts=thoughts))


def test_lists_and_paragraphs_number_the_steps() -> None:
    bare = UseTool(name="ls")
    first, second = group_episodes(session(*[ModelOutput(use_tool=bare), ModelOutput(use_tool=bare)]))
    assert as_list([first, second]) == "1. Executed `ls()`.\n2. Executed `ls()`."
    assert as_paragraphs([first, second]) == (
        f"### Step 1: {long_form(first)}\n\n\n### Step 2: {long_form(second)}\n"
    )
    assert as_list([]) == as_paragraphs([]) == ""
