from collections.abc import Iterator
from typing import Any

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.entries import Body, ModelInput
from historyapp.core.policies.sliding_window import SLIDING_WINDOW
from historyapp.core.settings import SessionSettings
from tests.core.entries import calls, result, session
from tests.core.formats.contexts import messages_of
from tests.core.policies.past import MemoryPast, Summary


def steps(count: int) -> list[Body]:
    bodies: list[Body] = [ModelInput(content="go")]
    return bodies + [b for i in range(1, count + 1) for b in (calls(str(i)), result(str(i), f"result {i}"))]


def summary(first: int, last: int, text: str = "it went well", level: int = 2) -> Summary:
    """A summary of steps whose output is at position 2n."""
    return Summary(f"{first}-{last}", 2 * first, 2 * last + 1, first, last, text, level)


def choose(count: int, *summaries: Summary, max_tokens: int | None = None) -> Context:
    past = MemoryPast(session(*steps(count)), summaries)
    chosen = SessionSettings(max_tokens=max_tokens, window_size=3)
    return SLIDING_WINDOW.choose(past, chosen, RequestMeter())


def shown_steps(context: Context) -> list[Any]:
    """Steps in full by number, summaries as pairs, inputs as None."""
    segments = [segment for segment in context.manifest.segments if segment.source in ("step", "input")]
    return [(s.step, s.last_step) if s.form == "summarised" else s.step for s in segments]


def test_summaries_come_before_the_window() -> None:
    context = choose(7, summary(1, 2), summary(3, 4))
    assert shown_steps(context) == [None, (1, 2), (3, 4), 5, 6, 7]
    assert messages_of(context)[1]["content"] == "Summary of steps 1 to 2:\nit went well"
    assert messages_of(context)[1]["role"] == "user"
    assert context.manifest.segments[1].summary == "1-2"


def test_steps_between_the_summaries_and_the_window_are_not_lost() -> None:
    assert shown_steps(choose(8, summary(1, 2), summary(4, 4))) == [None, (1, 2), 3, (4, 4), 5, 6, 7, 8]
    assert shown_steps(choose(5)) == [None, 1, 2, 3, 4, 5]


def test_a_summary_that_reaches_into_the_window_is_not_used() -> None:
    assert shown_steps(choose(5, summary(1, 3))) == [None, 1, 2, 3, 4, 5]


def test_a_digest_replaces_the_summaries_below_it() -> None:
    assert shown_steps(choose(7, summary(1, 2), summary(3, 4), summary(1, 4, level=3))) == [
        None,
        (1, 4),
        5,
        6,
        7,
    ]


def test_summaries_that_a_digest_covers_are_not_read() -> None:
    read = []

    class Counted(MemoryPast):
        def summaries_newest_first(self, before: int) -> Iterator[Summary]:
            for summary in super().summaries_newest_first(before):
                read.append(summary.id)
                yield summary

    below = [summary(step, step) for step in range(3, 301)]
    past = Counted(session(*steps(304)), [summary(1, 2), *below, summary(3, 300, level=3)])
    context = SLIDING_WINDOW.choose(past, SessionSettings(max_tokens=None, window_size=3), RequestMeter())
    assert shown_steps(context) == [None, (1, 2), (3, 300), 301, 302, 303, 304]
    assert len(read) < 50


def test_summaries_far_back_are_found() -> None:
    count = 500
    assert shown_steps(choose(count, summary(1, 2), summary(3, count - 3)))[:3] == [
        None,
        (1, 2),
        (3, count - 3),
    ]


def test_a_summary_that_does_not_fit_is_listed_and_skipped() -> None:
    context = choose(7, summary(1, 2), summary(3, 4, "long " * 200), max_tokens=200)
    assert shown_steps(context) == [None, (1, 2), 5, 6, 7]
    assert [(out.first_step, out.last_step) for out in context.manifest.left_out] == [(3, 4)]


def test_inputs_within_a_summary_that_does_not_fit_are_listed() -> None:
    bodies = [*steps(2), ModelInput(content="one " * 90), *steps(2)[1:]]
    bodies += [b for i in range(4) for b in (calls(str(i), text="word " * 60), result(str(i)))]
    bodies += [calls("9"), result("9")]
    past = MemoryPast(session(*bodies), [Summary("1-4", 2, 10, 1, 4, "it went " * 200)])
    chosen = SessionSettings(max_tokens=60, window_size=3)
    context = SLIDING_WINDOW.choose(past, chosen, RequestMeter())
    assert shown_steps(context) == [None, 9]
    outs = context.manifest.left_out
    assert any(out.position and out.position <= 6 <= (out.last_position or out.position) for out in outs)


def test_the_first_input_has_priority_over_older_steps() -> None:
    context = choose(40, max_tokens=120)
    assert messages_of(context)[0]["content"] == "go"
    assert context.manifest.left_out[0].first_step == 1


def test_a_context_that_leaves_nothing_out_only_grows() -> None:
    assert choose(5).stable == len(choose(5).parts)
    assert choose(40, max_tokens=120).stable == 0
