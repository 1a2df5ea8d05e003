"""Older steps in one text."""

from dataclasses import replace

import pytest

from historyapp.core.entries import ModelOutput, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.progress import compile_progress, fill, form_of, progress_line
from historyapp.core.settings import SessionSettings
from tests.core.entries import result, session
from tests.core.policies.past import MemoryPast, Summary

LOG = session(*[body for _ in range(4) for body in (ModelOutput(use_tool=UseTool(name="ls")), result())])
LONG = 'Executed `ls()`\n  - **Reasoning:** ""\n  - **Status:** `success`\n  - **Output:** here'


def words(text: str) -> int:
    return len(text.split())


def newest() -> Episode:
    return list(group_episodes(LOG))[-1]


def test_a_line_has_the_number_and_the_long_form_indented_by_two() -> None:
    assert progress_line(newest()) == f"* Step 4: {LONG}"


@pytest.mark.parametrize("summary", ["Listed it.", ""])
def test_a_summary_replaces_the_long_form_even_if_it_is_empty(summary: str) -> None:
    episode = replace(newest(), summary=summary)
    assert (progress_line(episode), form_of(episode)) == (f"* Step 4: {summary}", "summarised")
    assert progress_line(episode, full=True) == f"* Step 4: {LONG}"


def test_filling_stops_at_the_first_older_step_that_does_not_fit() -> None:
    lines = {4: "a", 3: "a b", 2: "a b c d", 1: "a"}
    steps = list(group_episodes(LOG))[::-1]

    def numbers(max_tokens: int | None) -> list[int]:
        fitted = fill(steps, 1, max_tokens, words, lambda episode: lines[episode.number])
        return [episode.number for episode, _, _ in fitted]

    assert numbers(None) == [1, 2, 3, 4]
    assert numbers(4) == [3, 4]  # exactly
    assert numbers(7) == [3, 4]  # step 1 would fit
    assert numbers(1) == []


@pytest.mark.parametrize(("full", "long"), [(-1, 0), (0, 0), (1, 1), (9, 4)])
def test_compiled_progress_shows_the_newest_steps_in_full_and_summaries_of_the_rest(
    full: int, long: int
) -> None:
    summaries = [Summary(str(step), 2 * step - 1, 2 * step, step, step, "short") for step in range(1, 5)]
    settings = SessionSettings(max_tokens=None, full_message_count=full)
    text = compile_progress(MemoryPast(LOG, summaries), settings, words)
    shown = ["short"] * (4 - long) + [LONG] * long
    assert text == "\n\n".join(f"* Step {number}: {line}" for number, line in enumerate(shown, start=1))
