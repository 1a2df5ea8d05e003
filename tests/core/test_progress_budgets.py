"""Progress messages with as many lines as a budget allows: the same as when lines are removed one by one."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from historyapp.core import messages, progress
from historyapp.core.budget import RequestMeter
from historyapp.core.entries import ModelOutput, UseTool
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS
from historyapp.core.messages import episodic_messages
from historyapp.core.policies import episodic
from historyapp.core.policies.episodic import EPISODIC
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from tests.core.entries import result, session
from tests.core.policies.past import MemoryPast, Summary
from tests.examples import examples

TEXTS = st.text(st.sampled_from("ab* .\n\r/:#-1\u00e9\u20ac\U0001f600\u5024"), max_size=30)
LONG = "result " * 3_000


def past_of(summaries: Sequence[str]) -> MemoryPast:
    step = (ModelOutput(use_tool=UseTool(name="ls")), result())
    return MemoryPast(
        session(*[body for _ in summaries for body in step]),
        [
            Summary(str(number), 2 * number - 1, 2 * number, number, number, text)
            for number, text in enumerate(summaries, start=1)
        ],
    )


def remove_one_by_one(
    lines: Sequence[progress.Line], limit: int | None, write: Callable[[Sequence[str]], tuple[Any, int]]
) -> Any:
    """As :func:`historyapp.core.progress.write_newest`, in quadratic time."""
    lines = list(lines)
    while lines:
        written, tokens = write([text for _, text, _ in lines])
        if limit is None or tokens <= limit:
            return lines, written
        del lines[0]
    return None


def both_ways(choose: Callable[[], Any]) -> tuple[Any, Any]:
    new = choose()
    with (
        patch.object(messages, "write_newest", remove_one_by_one),
        patch.object(episodic, "write_newest", remove_one_by_one),
    ):
        return new, choose()


@settings(max_examples=examples(400))
@given(
    st.lists(TEXTS, min_size=1, max_size=40), st.floats(0, 1), st.sampled_from([1.0, 1.1, 1.37]), st.data()
)
@example(["Listed it."] * 40, 0.5, 1.1, None)
@example(["", "word " * 300, *["."] * 30, "word " * 200, *["a"] * 30], 0.6, 1.0, None)
def test_the_same_lines_as_when_they_are_removed_one_by_one(
    summaries: list[str], share: float, factor: float, data: st.DataObject | None
) -> None:
    past = past_of(summaries)
    format = data.draw(st.sampled_from(sorted(FORMATS))) if data else "openai_chat"
    meter = RequestMeter(format, factor=factor)
    whole = EPISODIC.choose(past, SessionSettings(max_tokens=None, full_message_count=1), meter)
    chosen = SessionSettings(max_tokens=max(1, int(share * whole.manifest.tokens)), full_message_count=1)

    def choose() -> object:
        try:
            return EPISODIC.choose(past, chosen, meter)
        except Invalid as error:
            return error.detail

    new, old = both_ways(choose)
    assert new == old
    new, old = both_ways(lambda: episodic_messages(past, chosen, meter.count))
    assert new.manifest == old.manifest
    assert new.messages == old.messages


@pytest.mark.parametrize("summaries", [["ok"] * 2_000, ["ok", LONG] * 50, [LONG, *["ok"] * 2_000, LONG]])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_progress_message_is_counted_few_times(summaries: list[str], share: float) -> None:
    """Once for each removed line, which are hundreds, made a request take minutes."""
    past, counted = past_of(summaries), list[int]()

    def count(text: str) -> int:
        counted.append(len(text))
        return count_tokens(text)

    budget = int(share * sum(count_tokens(f"* Step {n}: {text}\n\n") for n, text in enumerate(summaries)))
    chosen = SessionSettings(max_tokens=budget, full_message_count=1)
    for choose in (
        lambda: EPISODIC.choose(past, chosen, RequestMeter(count=count)),
        lambda: episodic_messages(past, chosen, count),
    ):
        counted.clear()
        choose()
        long = [length for length in counted if length > max(counted) // 2]
        assert len(long) <= 12
