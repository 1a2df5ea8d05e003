"""Notes have the lines in which the agent read the names that it used later."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bench.quality.costs import METER
from historyapp.core import excerpts
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage
from historyapp.core.entries import Body, Entry, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.excerpts import MAX_LINES_KEPT, Excerpt, ExcerptLine, FoundLine, TextLines, split_lines
from historyapp.core.identifiers import word_places
from historyapp.core.policies import sources
from historyapp.core.policies.base import NO_EXTRAS, RequestExtras, StepOutline
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.policies.explained import ExplainedNames
from historyapp.core.policies.sources import find_sources
from historyapp.core.settings import SessionSettings
from tests.core.formats.contexts import messages_of
from tests.core.policies.past import MemoryPast

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = RequestExtras(notes_as_earlier=True)
RICH = [f"{n}: value_{n} = load_{n}(config_{n})" for n in range(100)]
"""Lines that an excerpt prefers."""
EXPLAINED = (
    "the retry limit of the upload queue is read from upload_limit, see the manual of the server for more"
)


def past(
    read: str, task: str = "Mend the parser.", *, uses: str = "upload_limit", steps: int = 40
) -> MemoryPast:
    """A session whose third step reads a text, and whose steps 24, 28 … use a name."""
    bodies: list[Body] = [ModelInput(content=task)]
    for number in range(1, steps + 1):
        argument = uses if number >= 24 and not number % 4 else f"src/module_{number}.py"
        call = ToolCall(id=f"call_{number}", name="read", arguments={"path": argument})
        text = read if number == 3 else "\n".join(f"{n}: plain_{number}_{n} = 1" for n in range(30))
        result = ToolResult(tool_call_id=call.id, status="success", outputs=text)
        bodies += [ModelOutput(tool_calls=(call,)), ToolResults(results=(result,))]
    return MemoryPast(Entry(position, body, NOW) for position, body in enumerate(bodies, 1))


def context(session: MemoryPast, extras: RequestExtras = NO_EXTRAS, budget: int = 4096) -> Context:
    return BUDGETED.choose(session, SessionSettings(max_tokens=budget), METER, extras)


def text_of(chosen: Context) -> str:
    return "\n".join(str(message) for message in messages_of(chosen))


def step(
    number: int, names: tuple[str, ...] = (), others: tuple[str, ...] = (), tokens: int = 10
) -> StepOutline:
    excerpt = Excerpt(names=names, others=others, result_names=len(others), result_tokens=tokens)
    return StepOutline(number, 2 * number, 2 * number + 1, "success", excerpt)


class Results(MemoryPast):
    """Each step read the text ``result``."""

    def __init__(self, result: str = "") -> None:
        super().__init__([])
        self.result = result
        self.wanted: list[tuple[int, str]] = []

    def lines_with(self, names: object) -> list[FoundLine | None]:
        pairs: list[tuple[StepOutline, str]] = list(names)  # type: ignore[call-overload]
        self.wanted += [(outline.number, name) for outline, name in pairs]
        return [TextLines(self.result).line_with(name) for _, name in pairs]


@pytest.mark.parametrize("budget", [1024, 2048, 8192])
def test_a_used_name_has_the_line_in_which_it_was_read(budget: int) -> None:
    session = past("\n".join([*RICH, EXPLAINED, *RICH]))
    assert EXPLAINED in text_of(context(session, budget=budget))
    assert EXPLAINED not in text_of(context(session, EARLIER, budget))


def test_a_name_that_was_not_used_has_no_further_line() -> None:
    session = past("\n".join([*RICH, EXPLAINED, *RICH]), uses="src/another.py")
    assert EXPLAINED not in text_of(context(session))


def test_a_used_name_has_its_line_of_a_clipped_input() -> None:
    session = past("", "\n".join(["Mend the parser.", *RICH, EXPLAINED, *RICH]))
    assert f"input: {EXPLAINED}" in text_of(context(session, budget=2048))
    assert EXPLAINED not in text_of(context(session, EARLIER, 2048))
    assert text_of(context(session, budget=60_000)).count(EXPLAINED) == 1


def test_a_line_of_an_input_covers_no_step() -> None:
    session = past("", "\n".join(["Mend the parser.", *RICH, EXPLAINED, *RICH]))
    manifest = context(session, budget=2048).manifest
    assert [out.first_step for out in manifest.left_out if out.first_step is not None]


def test_the_line_stays_in_the_next_contexts() -> None:
    """It becomes part of the beginning, which providers cache."""
    read = "\n".join([*RICH, EXPLAINED, *RICH])
    texts = [text_of(context(past(read, steps=steps))) for steps in range(36, 46)]
    assert all(EXPLAINED in text for text in texts)


def test_the_first_line_of_a_name_is_found_as_a_whole_word() -> None:
    found = TextLines("upload_limits = 3\nan upload_limit is set\nupload_limit = 4").line_with("upload_limit")
    assert found == FoundLine(18, "an upload_limit is set", 5, ("upload_limit",))
    assert TextLines("upload_limits = 3").line_with("upload_limit") is None


def test_only_the_part_of_a_long_line_is_kept() -> None:
    long = ", ".join(f"key_{n}: {n}" for n in range(1000))
    found = TextLines(f"first line\n{long}").line_with("key_700")
    assert found
    assert "key_700: 700" in found.text
    assert len(found.text) <= 200
    assert f"first line\n{long}"[found.place :].startswith(found.text)
    assert len(found.names) <= 30


def test_names_are_looked_for_in_the_first_step_that_read_them() -> None:
    results = Results("the limit is upload_limit")
    steps = [step(1, others=("upload_limit",)), step(2, others=("upload_limit",)), step(3, ("upload_limit",))]
    (source,) = find_sources(results, steps, [])
    assert results.wanted == [(1, "upload_limit")]
    assert (source.used_at, source.at, source.text) == (2, 0, "the limit is upload_limit")


@pytest.mark.parametrize(
    "steps",
    [
        [step(1, ("upload_limit",)), step(2, others=("upload_limit",))],
        [step(1, others=("upload_limit",)), step(2, ("other_name",))],
        [step(1, others=("upload_limit",), tokens=sources.MAX_TOKENS + 1), step(2, ("upload_limit",))],
    ],
    ids=["read after its use", "not used", "a very long result"],
)
def test_other_names_are_not_looked_for(steps: list[StepOutline]) -> None:
    results = Results("upload_limit")
    assert find_sources(results, steps, []) == []
    assert results.wanted == []


def test_a_name_whose_line_the_excerpt_has_is_not_looked_for() -> None:
    line = ExcerptLine("upload_limit", 2, ("upload_limit",))
    read = step(1)._replace(excerpt=Excerpt(lines=(line,), result_names=1))
    assert find_sources(Results("upload_limit"), [read, step(2, ("upload_limit",))], []) == []


def test_each_period_looks_in_a_limited_number_of_steps() -> None:
    """So reading does not grow with the session, and a new step changes no earlier choice."""
    many = 3 * sources.PERIOD
    results = Results("nothing")
    outlines = [step(number, others=(f"name_{number}",)) for number in range(1, many)]
    used = tuple(f"name_{number}" for number in range(1, many))
    find_sources(results, [*outlines, step(many, used)], [])
    assert [number for number, _ in results.wanted] == list(range(1, sources.MAX_STEPS + 1))
    before = list(results.wanted)
    results.wanted.clear()
    find_sources(results, [*outlines, step(many, used), step(many + 1, used[50:51])], [])
    assert results.wanted == before


def test_each_period_looks_for_a_limited_number_of_names() -> None:
    names = tuple(f"name_{number}" for number in range(sources.MAX_NAMES + 20))
    results = Results("nothing")
    find_sources(results, [step(1, others=names), step(2, names)], [])
    assert [name for _, name in results.wanted] == list(names[: sources.MAX_NAMES])


def test_names_of_the_oldest_periods_are_not_looked_for() -> None:
    last = sources.PERIOD * (sources.MAX_PERIODS + 2)
    results = Results("nothing")
    old = [step(1, others=("old_name",)), step(2, ("old_name",))]
    new = [step(last - 2, others=("new_name",)), step(last - 1, ("new_name",))]
    find_sources(results, [*old, *new], [])
    assert results.wanted == [(last - 2, "new_name")]


def test_names_are_looked_for_in_a_limited_number_of_inputs() -> None:
    hidden = [InputMessage(n, f"see input_name_{n}") for n in range(1, sources.MAX_INPUTS + 3)]
    used = tuple(f"input_name_{n}" for n in range(1, len(hidden) + 1))
    found = find_sources(Results(), [step(len(hidden), used)], hidden)
    assert {line.name for line in found} == set(used[: sources.MAX_INPUTS])
    assert all(line.place < 0 for line in found)


def test_lines_of_late_inputs_come_before_those_of_steps() -> None:
    late = 10_000_000
    steps = [step(late), step(late + 1, ("upload_limit", "queue_limit"))]
    hidden = [InputMessage(2 * late - 2, "see queue_limit"), InputMessage(2 * late - 1, "see upload_limit")]
    places = {line.name: line.place for line in find_sources(Results(), steps, hidden)}
    assert places["queue_limit"] < places["upload_limit"] < 0


def test_an_input_that_came_after_the_use_of_a_name_is_not_its_source() -> None:
    hidden = [InputMessage(5, "see upload_limit")]
    assert find_sources(Results(), [step(2, ("upload_limit",)), step(4)], hidden) == []
    (found,) = find_sources(Results(), [step(2), step(4, ("upload_limit",))], hidden)
    assert (found.used_at, found.at, found.text) == (1, 1, "see upload_limit")


def test_a_tool_call_mentions_a_name_and_a_line_explains_it() -> None:
    names = ExplainedNames(())
    names.add(["upload_limit"], (4, -1), explains=False)
    assert (names.known, names.mentioned) == (set(), {"upload_limit"})
    names.add(["upload_limit"], (2, 0), explains=True)
    assert names.known == {"upload_limit"}


def test_a_line_that_was_chosen_before_a_name_was_used_only_mentions_it() -> None:
    names = ExplainedNames(["shown_name"])
    names.add(["upload_limit"], (5, 0), explains=True)
    assert names.set_source("upload_limit", (2, 1018))
    assert not names.set_source("shown_name", (2, 1018))
    assert (names.known, names.mentioned) == ({"shown_name"}, {"upload_limit"})
    names.add(["upload_limit"], (2, 1018), explains=True)
    assert "upload_limit" in names.known
    assert names.is_chosen_source((2, 1018), ["other_name"])
    assert "other_name" in names.known


def test_the_parts_of_a_long_line_are_split_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(text: str) -> Iterator[str]:
        calls.append(text)
        return split_lines(text)

    monkeypatch.setattr(excerpts, "split_lines", counted)
    text = "first line\n" + ", ".join(f"key_{n}: {n}" for n in range(1000))
    lines = TextLines(text)
    found = [lines.line_with(f"key_{n}") for n in range(1000)]
    assert len(calls) == 1
    places = [line.place for line in found if line]
    assert places == sorted(places)
    assert len(places) == 1000
    assert all(line and f"key_{n}: {n}" in line.text for n, line in enumerate(found))


def test_a_text_keeps_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def counted(name: str, text: str) -> Iterator[int]:
        looked_up.append(name)
        return word_places(name, text)

    monkeypatch.setattr(excerpts, "word_places", counted)
    lines = TextLines("\n".join(f"key_{n}: {n}" for n in range(MAX_LINES_KEPT + 10)))
    for _ in range(2):
        found = [lines.line_with(f"key_{n}") for n in range(MAX_LINES_KEPT + 10)]
        assert [line and line.text for line in found] == [f"key_{n}: {n}" for n in range(MAX_LINES_KEPT + 10)]
    assert len(looked_up) == MAX_LINES_KEPT + 20


def test_names_of_inputs_are_limited_to_those_used_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_INPUT_NAMES", 3)
    hidden = [
        InputMessage(1, "\n".join(f"late_{n}: {n}" for n in range(3))),
        InputMessage(2, "\n".join(f"early_{n}: {n}" for n in range(2))),
    ]
    steps = [step(1, names=("early_0",)), step(2, names=("late_1", "early_1")), step(3, names=("late_0",))]
    for number in (2, 3):  # the third step changes nothing
        found = find_sources(Results(), steps[:number], hidden)
        assert [(source.used_at, source.name) for source in found] == [
            (0, "early_0"),
            (1, "late_1"),
            (1, "early_1"),
        ]
