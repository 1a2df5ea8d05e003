"""The budget is never exceeded, no pinned part is lost, and the beginning stays unchanged."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.quality.corpus import Recorded, load
from bench.quality.costs import METER
from bench.quality.served import Replayed, budgeted_context, past_of
from historyapp.core.context import Context
from historyapp.core.entries import (
    Body,
    Entry,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.episodes import group_episodes
from historyapp.core.errors import Invalid
from historyapp.core.excerpts import Excerpt, ExcerptLine
from historyapp.core.json import dump_json
from historyapp.core.policies.base import RequestExtras, StepOutline
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.policies.cuts import MAX_PERIOD, PERIOD, first_outlined
from historyapp.core.policies.notes import Notes
from historyapp.core.settings import SessionSettings
from tests.core.formats.contexts import messages_of
from tests.core.policies.past import MemoryPast, Summary
from tests.examples import examples, runs_all_examples
from tests.shared import SHARED, needs

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILES = "corpus/mini_swe_agent", "corpus/openai_chat", "corpus/codex_rollout"


def session(
    results: list[str], inputs: dict[int, str] | None = None, failed: tuple[int, ...] = ()
) -> Recorded:
    """A session with one call a step; ``inputs`` by the step before which they came."""
    texts = {1: "Mend the parser in src/parser_main.py.", **(inputs or {})}
    bodies: list[Body] = []
    for number, result in enumerate(results, 1):
        if number in texts:
            bodies.append(ModelInput(content=texts[number]))
        call = ToolCall(id=f"call_{number}", name="read", arguments={"path": f"src/module_{number}.py"})
        status: Any = "error" if number in failed else "success"
        tool_result = ToolResult(tool_call_id=call.id, status=status, outputs=result, reason=result)
        bodies += [ModelOutput(tool_calls=(call,)), ToolResults(results=(tool_result,))]
    entries = [Entry(position, body, NOW) for position, body in enumerate(bodies, 1)]
    input_entries = [entry for entry in entries if isinstance(entry.body, ModelInput)]
    return Recorded("test", "test", "test", list(group_episodes(entries)), input_entries, [])


def lines(number: int, many: int = 30) -> str:
    return "\n".join(f"{n}: value_{number}_{n} = load_{number}_{n}(config_{n})" for n in range(many))


LONG = session([lines(number) for number in range(1, 151)])
BRISK = session([lines(number, 3) for number in range(1, 151)])


def context(recorded: Recorded, budget: int | None, step: int | None = None) -> Context:
    """The context before ``step`` (default: after the last step)."""
    step = step or len(recorded.episodes) + 1
    return BUDGETED.choose(past_of(recorded).before(step), SessionSettings(max_tokens=budget), METER)


def text_of(chosen: Context) -> str:
    return dump_json(messages_of(chosen))


def total(chosen: Context) -> int:
    return sum(part.tokens for part in chosen.parts) + METER.added_tokens(chosen)


@cache
def corpus() -> list[Recorded]:
    every = 1 if runs_all_examples() else 5
    sessions = [recorded for folder in FILES for recorded in load(SHARED / folder, every=every)]
    return [recorded for recorded in sessions if len(recorded.episodes) > 12]


@needs("corpus")
@settings(max_examples=examples(60))
@given(st.data())
def test_no_real_session_exceeds_any_budget_at_any_step(data: st.DataObject) -> None:
    recorded = data.draw(st.sampled_from(corpus()))
    step = data.draw(st.integers(1, len(recorded.episodes)))
    budget = data.draw(st.one_of(st.integers(0, 600), st.integers(600, 9000)))
    try:
        chosen = budgeted_context(recorded, step, budget)
    except Invalid as error:
        smallest = error.fields["smallest"]
        assert smallest > budget
        chosen, budget = budgeted_context(recorded, step, smallest), smallest
    assert total(chosen) <= budget
    assert chosen.manifest.tokens == total(chosen)


def test_steps_without_a_note_are_listed_from_the_first_one() -> None:
    left_out = context(LONG, 700, step=40).manifest.left_out
    ranges = [
        (out.first_step, out.last_step) for out in left_out if "likely enough to be needed" in out.reason
    ]
    assert ranges[0][0] == 1
    assert all(first <= last for first, last in ranges if first and last)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ranges) if a[1] and b[0])


@pytest.mark.parametrize("budget", [150, 300, 700, 2048, 8192, None])
def test_every_step_is_in_the_manifest_once_or_more(budget: int | None) -> None:
    manifest = context(LONG, budget).manifest
    listed_steps: set[int] = set()
    for out in manifest.left_out:
        if out.first_step is not None and out.last_step is not None:
            listed_steps |= set(range(out.first_step, out.last_step + 1))
    for segment in manifest.segments:
        if segment.step is not None:
            listed_steps |= set(range(segment.step, (segment.last_step or segment.step) + 1))
    assert listed_steps >= set(range(1, 151))


@pytest.mark.parametrize("budget", [150, 200, 400, 1000, 2048, 8192])
def test_the_model_gets_the_numbers_of_left_out_steps(budget: int) -> None:
    chosen = context(LONG, budget)
    steps = [segment.step for segment in chosen.manifest.segments if segment.step and not segment.last_step]
    assert re.search(rf"teps (\d+) to {min(steps) - 1}\b", text_of(chosen))
    assert "can be fetched in full by its number." in text_of(chosen)


def test_while_everything_fits_everything_is_in_full() -> None:
    chosen = context(session(["one", "two", "three"]), 2048)
    assert [message["role"] for message in messages_of(chosen)] == ["user", *["assistant", "tool"] * 3]
    assert {segment.form for segment in chosen.manifest.segments} == {"full"}
    assert not chosen.manifest.left_out


def test_without_a_budget_the_examined_steps_are_in_full() -> None:
    chosen = context(session(["fine"] * 40), None)
    assert sum(message["role"] == "tool" for message in messages_of(chosen)) == 40
    assert context(LONG, None).manifest.max_tokens is None


def test_inputs_stay_verbatim_through_all_cuts() -> None:
    inputs = {40: "Keep the <b>public</b> API — exactly.", 90: "And do not touch tests/old_parser.py!"}
    recorded = session([lines(number) for number in range(1, 101)], inputs)
    for step in range(2, 101, 7):
        contents = [message["content"] for message in messages_of(context(recorded, 1500, step))]
        for before, text in {1: "Mend the parser in src/parser_main.py.", **inputs}.items():
            assert (text in contents) == (before < step)


def test_inputs_that_are_too_large_are_clipped_and_a_note_says_so() -> None:
    recorded = session(["fine"] * 8, {1: "begin " + "word " * 5000 + "end", 4: "Short and whole."})
    chosen = context(recorded, 1500)
    contents = [message["content"] for message in messages_of(chosen) if message["role"] == "user"]
    assert "Short and whole." in contents
    assert contents[0].startswith("begin")
    assert contents[0].endswith("end")
    assert any("inputs take" in note for note in chosen.manifest.notes)
    forms = [segment.form for segment in chosen.manifest.segments if segment.source == "input"]
    assert forms == ["clipped", "full"]


def test_the_newest_step_is_in_full_if_it_fits() -> None:
    chosen = context(LONG, 2048)
    assert messages_of(chosen)[-1]["content"] == lines(150)
    call, answer = messages_of(chosen)[-2:]
    assert call["tool_calls"][0]["id"] == answer["tool_call_id"]


def test_a_newest_result_that_is_too_large_is_clipped_and_a_note_says_so() -> None:
    recorded = session([*["fine"] * 5, lines(6, 2000)])
    chosen = context(recorded, 1000)
    assert messages_of(chosen)[-1]["content"].startswith("0: value_6_0 = load_6_0(config_0)")
    assert messages_of(chosen)[-1]["content"].endswith("[clipped: step 6 has it all]")
    assert any("Step 6, the newest" in note for note in chosen.manifest.notes)
    assert chosen.manifest.segments[-1].form == "clipped" or chosen.manifest.segments[-2].form == "clipped"


def test_every_call_is_followed_by_its_result() -> None:
    for budget in (200, 500, 1000, 4000):
        messages = messages_of(context(LONG, budget))
        for index, message in enumerate(messages):
            if calls := message.get("tool_calls"):
                ids = [call["id"] for call in calls]
                assert [m["tool_call_id"] for m in messages[index + 1 : index + 1 + len(ids)]] == ids
        assert sum(m["role"] == "tool" for m in messages) == sum(
            len(m.get("tool_calls") or ()) for m in messages
        )


def test_lines_about_the_files_in_use_are_noted_before_other_lines() -> None:
    results = [lines(number) for number in range(1, 61)]
    results[4] = f"{lines(5)}\nthe secret is in src/module_40.py\n{lines(5)}"
    chosen = context(session(results), 1200, 46)
    assert "the secret is in src/module_40.py" in text_of(chosen)


@pytest.mark.parametrize(
    ("is_fixed", "first"), [(False, "KeyError: lookup_table"), (True, "Found: other_table")]
)
def test_a_failure_has_more_weight_until_it_is_fixed(is_fixed: bool, first: str) -> None:
    failed = Excerpt(
        "run: a_b",
        3,
        ("a_b",),
        (ExcerptLine("KeyError: lookup_table", 6, ("lookup_table",)),),
        result_names=1,
    )
    fine = Excerpt(
        "run: c_d", 3, ("c_d",), (ExcerptLine("Found: other_table", 6, ("other_table",)),), result_names=1
    )
    later = Excerpt("run: again", 3, ("a_b",) if is_fixed else ("e_f",))
    steps = [
        StepOutline(1, 1, 2, "error", failed),
        StepOutline(2, 3, 4, "success", fine),
        StepOutline(3, 5, 6, "success", later),
    ]
    chosen, _ = Notes(steps, ["a_b", "c_d", "e_f"]).choose(2, 2, 46)
    assert [note.text for note in chosen] == [first]


@pytest.mark.parametrize("budget", [600, 1200, 1280, 2048])
def test_most_of_the_budget_is_used_if_not_everything_fits(budget: int) -> None:
    assert 0.8 * budget < total(context(BRISK, budget)) <= budget


def test_everything_that_fits_is_in_full_even_if_no_cache_is_used() -> None:
    chosen = context(session(["fine"] * 4, {1: "word " * 780}), 1200)
    assert {segment.form for segment in chosen.manifest.segments} == {"full"}


@pytest.mark.parametrize("budget", [1000, 2048])
def test_names_clipped_from_the_newest_step_are_listed_before_it(budget: int) -> None:
    patch = "\n".join(f"some plain words of a patch, line {n}" for n in range(90))
    recorded = session([lines(number) for number in range(1, 31)])
    call = ToolCall(id="call_31", name="edit", arguments={"patch": f"{patch} lib/hidden_part.py {patch}"})
    done = ToolResult(tool_call_id=call.id, status="success", outputs="done")
    bodies: list[Body] = [ModelOutput(tool_calls=(call,)), ToolResults(results=(done,))]
    entries = [Entry(200 + n, body, NOW) for n, body in enumerate(bodies)]
    edited = replace(recorded, episodes=[*recorded.episodes, *group_episodes(entries, 31)])
    *earlier, newest, _ = map(dump_json, messages_of(context(edited, budget)))
    assert "lib/hidden_part.py" not in newest
    assert "lib/hidden_part.py" in earlier[-1]


def test_a_clipped_input_keeps_its_beginning_and_its_most_informative_lines() -> None:
    filler = "\n".join(f"and so on, and so on, as was said {n}" for n in range(400))
    text = f"Mend the parser.\n{filler}\nIt breaks in src/deep_parser.py.\n{filler}\nThanks."
    chosen = context(session(["fine"] * 8, {1: text}), 1500)
    content = messages_of(chosen)[0]["content"]
    assert content.startswith("Mend the parser.")
    assert "It breaks in src/deep_parser.py." in content
    assert content.endswith("Thanks.")
    assert "[…]" in content


def test_the_same_log_gives_the_same_bytes() -> None:
    for step in (10, 77, 150):
        assert text_of(context(LONG, 2048, step)) == text_of(context(LONG, 2048, step))


def prefix(before: Context, after: Context) -> Iterator[bool]:
    for old, new in zip(before.parts, after.parts, strict=False):
        if old != new:
            return
        yield True


def test_most_of_a_context_begins_the_next_one_too() -> None:
    """docs/context-quality.md: with short steps, most of what is sent was sent before."""
    shared = sent = 0
    previous = context(BRISK, 4096, 20)
    for step in range(21, 90):
        now = context(BRISK, 4096, step)
        same = sum(prefix(previous, now))
        shared += sum(part.tokens for part in now.parts[:same])
        sent += sum(part.tokens for part in now.parts)
        previous = now
    assert shared / sent > 0.6


def test_the_stable_part_begins_the_next_context_unless_it_is_cut() -> None:
    contexts = [context(BRISK, 4096, step) for step in range(64, 115)]
    kept = sum(sum(prefix(now, following)) >= now.stable for now, following in pairwise(contexts))
    assert kept > 35


def test_the_error_of_a_budget_that_is_too_small_names_the_smallest_that_works() -> None:
    with pytest.raises(Invalid) as caught:
        context(LONG, 20)
    smallest = caught.value.fields["smallest"]
    assert str(smallest) in caught.value.detail
    assert total(context(LONG, smallest)) <= smallest
    with pytest.raises(Invalid):
        context(LONG, smallest - 1)


def test_instruction_and_tools_count_against_the_budget() -> None:
    past = Replayed(LONG)
    past.instruction = "Be brief. " * 150
    extras = RequestExtras(
        tools=[{"name": "read", "description": "word " * 200, "parameters": {"type": "object"}}]
    )
    chosen = BUDGETED.choose(past, SessionSettings(max_tokens=2048), METER, extras)
    assert chosen.system == past.instruction
    assert chosen.manifest.tokens <= 2048
    assert {"system", "tools"} <= {segment.source for segment in chosen.manifest.segments}


def test_a_session_without_steps_is_its_inputs() -> None:
    entries = [Entry(1, SystemInstruction(text="x"), NOW), Entry(2, ModelInput(content="Hello."), NOW)]
    empty = Recorded("test", "test", "test", [], entries[1:], [])
    assert [message["content"] for message in messages_of(context(empty, 100, 1))] == ["Hello."]


def test_the_tokens_of_an_unanswered_call_are_counted() -> None:
    recorded = session(["fine"] * 3)
    entry = Entry(90, ModelOutput(tool_calls=(ToolCall(id="open", name="read", arguments={}),)), NOW)
    open_ended = Recorded(
        "test", "test", "test", [*recorded.episodes, *group_episodes([entry], 4)], recorded.inputs, []
    )
    chosen = context(open_ended, 500)
    assert "tool_calls" in messages_of(chosen)[-2]
    assert chosen.manifest.tokens == total(chosen) <= 500


@given(st.text(alphabet=st.characters(exclude_categories=[])), st.integers(0, 400))
@settings(max_examples=examples(50))
def test_hostile_text_is_only_text(text: str, budget: int) -> None:
    recorded = session([text * 20, text, text * 200], {2: text})
    with suppress(Invalid):
        assert total(context(recorded, budget)) <= budget


def test_the_examined_steps_are_bounded_and_their_first_one_changes_rarely() -> None:
    firsts = [first_outlined(newest) for newest in range(1, 1000)]
    looked_at = [newest - first + 1 for newest, first in enumerate(firsts, 1)]
    assert max(looked_at) < 2 * PERIOD
    assert len(set(firsts)) <= 1000 // PERIOD


@pytest.mark.parametrize("room", [0, 200_000, 1_100_000, 2_147_483_647])
def test_the_number_of_outlined_steps_is_bounded_for_any_budget(room: int) -> None:
    newest = 100_000
    assert newest - first_outlined(newest, room) + 1 <= min(2 * MAX_PERIOD, 2 * PERIOD * (1 + room // 16_384))


def summarised(*ranges: tuple[int, int], text: str = "Moved load_all to src/old_home.py.") -> Context:
    """BRISK under a small budget, some ranges of its steps summarised."""
    entries = [Entry(1, ModelInput(content="Mend the parser."), NOW)]
    for episode in BRISK.episodes:
        tool_result = ToolResults(results=episode.results)
        entries += [
            Entry(2 * episode.number, episode.output, NOW),
            Entry(2 * episode.number + 1, tool_result, NOW),
        ]
    stood = [Summary(f"{a}-{b}", 2 * a, 2 * b + 1, a, b, text) for a, b in ranges]
    return BUDGETED.choose(MemoryPast(entries, stood), SessionSettings(max_tokens=1500), METER)


def test_summaries_replace_steps_that_are_too_old_to_be_examined() -> None:
    chosen = summarised((1, 20), (31, 60), (40, 50))
    assert [m["content"] for m in messages_of(chosen)[1:3]] == [
        "Summary of steps 1 to 20:\nMoved load_all to src/old_home.py.",
        "Summary of steps 31 to 60:\nMoved load_all to src/old_home.py.",
    ]
    left = [(out.first_step, out.last_step) for out in chosen.manifest.left_out if out.last_step]
    assert left[:2] == [(21, 30), (61, first_outlined(150) - 1)]
    assert chosen.manifest.tokens <= 1500


def test_summaries_take_no_more_than_their_share() -> None:
    chosen = summarised(*[(n, n + 1) for n in range(1, 60, 2)])
    summaries = [segment for segment in chosen.manifest.segments if segment.form == "summarised"]
    assert 3 < len(summaries) < 20
    assert sum(segment.tokens for segment in summaries) <= 0.15 * 1500
    assert summaries[-1].last_step == 60


def test_a_summary_of_several_examined_steps_is_noted_before_their_lines() -> None:
    chosen = summarised((70, 130), text="All is quiet.")
    assert "steps 70 to 130: All is quiet." in text_of(chosen)
    left = [(out.first_step, out.last_step) for out in chosen.manifest.left_out if out.last_step]
    assert not [span for span in left if span[0] and 70 <= span[0] <= 130]
