"""An evaluation finds the same names in the texts that it keeps, and all at once, as the definition says."""

from collections.abc import Sequence
from itertools import islice
from sys import getsizeof
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.quality.corpus import Recorded, read_file
from historyapp.core.entries import (
    Body,
    Entry,
    ModelInput,
    ModelOutput,
    ResultStatus,
    ToolCall,
    ToolResult,
    ToolResults,
    text_of,
)
from historyapp.core.episodes import group_episodes
from historyapp.core.evaluation.reading import texts_only
from historyapp.core.evaluation.targets import (
    FIRST_STEP,
    NeededIdentifier,
    argument_texts,
    spread,
    targets,
    words_around,
)
from historyapp.core.identifiers import identifiers, word_places
from historyapp.core.results import returned_text
from tests.core.entries import LIVE, session
from tests.examples import examples, thorough
from tests.shared import SHARED, needs


def recorded(entries: Sequence[Entry]) -> Recorded:
    inputs = [
        entry
        for entry in entries
        if isinstance(entry.body, ModelInput) and text_of(entry.body.content).strip()
    ]
    fixed = [entry for entry in entries if entry.kind in ("system_instruction", "memory_notebook")]
    return Recorded("", "", "", list(group_episodes(entries)), inputs, fixed)


def kept(entries: Sequence[Entry]) -> Recorded:
    return recorded([entry._replace(body=texts_only(entry.body)[0], metadata={}) for entry in entries])


def by_definition(
    recording: Recorded, max_steps: int | None = None, max_names: int | None = None
) -> dict[int, list[NeededIdentifier]]:
    """The targets, by a search for one name after the other."""
    texts = [
        (entry.position, True, text_of(getattr(entry.body, "content", ""))) for entry in recording.inputs
    ]
    texts += [(entry.position, False, getattr(entry.body, "text", "")) for entry in recording.fixed]
    steps = []
    for episode in recording.episodes:
        arguments = list(argument_texts(episode.output))
        written = "\n".join([episode.output.thoughts_text, episode.output.text, *arguments])
        texts.append((episode.first_position, False, written))
        texts += [(episode.last_position, True, returned_text(result)) for result in episode.results]
        names = dict.fromkeys(name for text in arguments for name in identifiers(text))
        if names and episode.number >= FIRST_STEP:
            steps.append((episode, list(names)[:max_names]))
    texts.sort(key=lambda item: item[0])
    first_uses: dict[str, int] = {}
    found: dict[int, list[NeededIdentifier]] = {}
    for episode, names_of_step in steps if max_steps is None else spread(steps, max_steps):
        for name in names_of_step:
            before = first_uses.setdefault(name, episode.first_position)
            first = next((item for item in texts if next(word_places(name, item[2]), None) is not None), None)
            if first is not None and first[0] < before and first[1]:
                places = islice(word_places(name, first[2]), 50)
                windows = tuple(words_around(first[2], at, len(name)) for at in places)
                found.setdefault(episode.number, []).append(NeededIdentifier(name, windows))
    return found


@needs("corpus")
@pytest.mark.parametrize("every", [20, thorough(1)])
def test_recorded_sessions_have_the_targets_of_the_definition(every: int) -> None:
    files = [path for path in sorted((SHARED / "corpus").rglob("*")) if path.is_file()][::every]
    count = 0
    for path in files:
        for entries in read_file(path):
            expected = by_definition(recorded(entries))
            assert targets(recorded(entries)) == targets(kept(entries)) == expected
            assert targets(kept(entries), 5, 3) == by_definition(recorded(entries), 5, 3)
            count += len(expected)
    assert count > 2_000 / every


NAMES = st.sampled_from(
    ["a/b", "a/b.c", "b.c", "x_y", "app.py", "https://a.b/c_d,e", "größe.txt", "修app.py", "12345"]
)
TEXTS = st.lists(NAMES | st.sampled_from([" ", "\n", "_", "/", "修", "word"]), max_size=8).map("".join)

STATUSES: tuple[ResultStatus, ...] = get_args(ResultStatus)
ARGUMENTS = TEXTS | st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=2)


@settings(max_examples=examples(400, part=32))
@given(st.data())
def test_any_session_has_the_targets_of_the_definition(data: st.DataObject) -> None:
    steps: list[Body] = []
    for number in range(FIRST_STEP + 3):
        calls = tuple(
            ToolCall(id=f"{number} {at}", name="a/b", arguments=arguments)
            for at, arguments in enumerate(data.draw(st.lists(ARGUMENTS, max_size=3)))
        )
        steps.append(ModelOutput(thoughts=data.draw(TEXTS), tool_calls=calls, raw_message={"x": "a/b x_y"}))
        for call in calls:
            status = data.draw(st.sampled_from(STATUSES))
            text = data.draw(TEXTS)
            result = ToolResult(tool_call_id=call.id, status=status, outputs=text, reason=text, feedback=text)
            steps.append(ToolResults(results=(result,), overall="a/b x_y"))
        if data.draw(st.booleans()):
            steps.append(ModelInput(content=[{"type": "text", "text": data.draw(TEXTS)}]))
    entries = session(*steps)
    assert targets(kept(entries)) == targets(recorded(entries)) == by_definition(recorded(entries))


def texts_of(recording: Recorded) -> list[object]:
    steps = [
        (
            episode.first_position,
            episode.last_position,
            episode.output.thoughts_text,
            episode.output.text,
            "\n".join(argument_texts(episode.output)).split(),
            list(map(returned_text, episode.results)),
        )
        for episode in recording.episodes
    ]
    inputs = [(entry.position, text_of(getattr(entry.body, "content", ""))) for entry in recording.inputs]
    return [steps, inputs, recording.fixed]


@settings(max_examples=examples(800))
@given(LIVE)
def test_entries_of_any_shape_keep_their_texts(entries: list[Entry]) -> None:
    assert texts_of(kept(entries)) == texts_of(recorded(entries))


def test_raw_messages_images_and_reasoning_are_not_kept() -> None:
    output = ModelOutput(text="x", reasoning=[{"data": "long"}], raw_message={"x": "long"})
    image = {"type": "image", "media_type": "image/png", "data": "long"}
    bodies: list[Body] = [
        output,
        ToolResults(results=(ToolResult(status="success", outputs=[image]),), overall="long"),
        ModelInput(content=[image, {"type": "text", "text": "see"}], raw_input="long"),
    ]
    kept = [["x", "", ""], ["[image]"], ["see"]]
    assert [texts_only(body)[1] for body in bodies] == [sum(map(getsizeof, texts)) for texts in kept]
    assert "long" not in str([texts_only(body)[0] for body in bodies])


def test_a_text_with_an_emoji_takes_four_bytes_for_each_character() -> None:
    plain, emoji = (
        texts_only(ModelInput(content=letter + "word " * 1_000))[1] for letter in ("a", "\U0001f600")
    )
    assert 3.9 < emoji / plain < 4.1
