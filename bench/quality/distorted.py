"""Recorded sessions made awkward: no policy should be worse on them than the plainest baseline."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256

from bench.quality.corpus import Recorded, joined
from historyapp.core.entries import Entry, ModelInput, ToolResult, text_of
from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifier_places

FILLER = "A line of a long log in which nothing is said that anybody needs later on.\n"
HUGE = 2_000
"""Lines of filler in the huge input."""
TINY = 500
PARALLEL = 64
_WORD = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")


def huge_input(sessions: Iterable[Recorded]) -> list[Recorded]:
    """The first input is followed by 2,000 lines that nobody needs."""
    return [
        replace(session, inputs=[_with_more(session.inputs[0], FILLER * HUGE), *session.inputs[1:]])
        for session in sessions
        if session.inputs
    ]


def tiny_inputs(sessions: Iterable[Recorded]) -> list[Recorded]:
    """Between the steps stand 500 inputs of one word."""
    return [_interrupted(session) for session in sessions if session.inputs]


def chinese(sessions: Iterable[Recorded]) -> list[Recorded]:
    """Words become Chinese letters, and no blanks stand between these and names."""
    return [
        _translated(session, lambda words: _letters(words.replace(" ", ""), 0x4E00, 2_000))
        for session in sessions
    ]


def arabic(sessions: Iterable[Recorded]) -> list[Recorded]:
    """Words become Arabic ones."""
    return [_translated(session, lambda words: _letters(words, 0x0627, 36)) for session in sessions]


def parallel_calls(sessions: Iterable[Recorded]) -> list[Recorded]:
    """Each step has the calls and results of 64 steps. Sessions are joined, to have enough of them."""
    return [_merged(session) for session in joined(sessions)]


DISTORTIONS: dict[str, Callable[[Iterable[Recorded]], list[Recorded]]] = {
    "huge-input": huge_input,
    "tiny-inputs": tiny_inputs,
    "chinese": chinese,
    "arabic": arabic,
    "parallel-calls": parallel_calls,
}


def _with_more(entry: Entry, more: str) -> Entry:
    assert isinstance(entry.body, ModelInput)
    return entry._replace(body=ModelInput(content=f"{text_of(entry.body.content)}\n{more}"))


def _interrupted(session: Recorded) -> Recorded:
    """The session with tiny inputs after each step. Positions are multiplied to make room for them."""
    each = -(-TINY // len(session.episodes))
    spread = each + 1
    tiny = session.inputs[0]._replace(body=ModelInput(content="yes"))
    inputs = [entry._replace(position=entry.position * spread) for entry in session.inputs]
    episodes = []
    for episode in session.episodes:
        last = episode.last_position * spread
        episodes.append(replace(episode, first_position=episode.first_position * spread, last_position=last))
        inputs += [tiny._replace(position=last + number) for number in range(1, each + 1)]
    return replace(session, episodes=episodes, inputs=sorted(inputs, key=lambda entry: entry.position))


def _translated(session: Recorded, translate: Callable[[str], str]) -> Recorded:
    def changed(text: str) -> str:
        made, end = "", 0
        for at, name in identifier_places(text):
            made += _WORD.sub(lambda match: translate(match[0]), text[end:at]) + name
            end = at + len(name)
        return made + _WORD.sub(lambda match: translate(match[0]), text[end:])

    def result(old: ToolResult) -> ToolResult:
        texts = {name: getattr(old, name) for name in ("outputs", "reason")}
        return old.model_copy(
            update={name: changed(text) for name, text in texts.items() if isinstance(text, str)}
        )

    episodes = [
        replace(
            episode,
            received=tuple(paired._replace(result=result(paired.result)) for paired in episode.received),
        )
        for episode in session.episodes
    ]
    inputs = [
        entry._replace(body=ModelInput(content=changed(text_of(entry.body.content))))
        for entry in session.inputs
        if isinstance(entry.body, ModelInput)
    ]
    return replace(session, episodes=episodes, inputs=inputs)


def _letters(words: str, first: int, count: int) -> str:
    """Words with a third of their letters, in another script. The same word always gives the same letters."""
    return " ".join(
        "".join(
            chr(first + byte * 7 % count) for byte in sha256(word.encode()).digest()[: -(-len(word) // 3)]
        )
        for word in words.split(" ")
    )


def _merged(session: Recorded) -> Recorded:
    episodes = session.episodes
    groups = [episodes[start : start + PARALLEL] for start in range(0, len(episodes), PARALLEL)]
    return replace(session, episodes=[_one(number, group) for number, group in enumerate(groups, 1)])


def _one(number: int, group: list[Episode]) -> Episode:
    """A step with the calls and results of a group. Ids get a prefix: two sessions may use the same."""
    calls, received = [], []
    for place, episode in enumerate(group):
        calls += [call.model_copy(update={"id": f"{place}-{call.id}"}) for call in episode.output.tool_calls]
        for paired in episode.received:
            changed = {"tool_call_id": f"{place}-{paired.result.tool_call_id}"}
            ids = tuple(f"{place}-{call}" for call in paired.calls)
            received.append(paired._replace(result=paired.result.model_copy(update=changed), calls=ids))
    output = group[0].output.model_copy(update={"tool_calls": tuple(calls)})
    return replace(
        group[0],
        number=number,
        output=output,
        last_position=group[-1].last_position,
        received=tuple(received),
    )
