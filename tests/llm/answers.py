"""Random model responses for property tests, and how each API writes them, without a network."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from historyapp.llm.completions import Completion, collect
from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.provider import ResponseReader
from historyapp.llm.router import PROVIDERS
from tests.llm.loopback import Answer, Call, responses_wire, wire
from tests.llm.loopback.wire import Event, Json

TEXTS = st.text(st.characters(), max_size=60)
_VALUES = st.dictionaries(
    TEXTS, st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS), max_size=3
)
_CALLS = st.lists(st.tuples(st.sampled_from(["read_file", "edit"]), _VALUES), max_size=3).map(
    lambda calls: tuple(
        Call(f"call_{place}", name, json.dumps(value)) for place, (name, value) in enumerate(calls)
    )
)
_SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    text = draw(TEXTS)
    thoughts = draw(TEXTS)
    return Answer(
        text=text,
        thoughts=thoughts,
        opaque=draw(TEXTS.filter(bool)) if thoughts else "",
        redacted=draw(st.just("") | TEXTS),
        calls=draw(_CALLS),
        refusal="" if text else draw(st.just("") | TEXTS),
        cached=draw(st.integers(0, 9)),
        sizes=draw(_SIZES),
    )


def resized(answer: Answer) -> st.SearchStrategy[tuple[Answer, Answer]]:
    """The response, and the same response split into other pieces."""
    return _SIZES.map(lambda sizes: (answer, replace(answer, sizes=sizes)))


@dataclass(frozen=True)
class Wire:
    """How the loopback writes a response for one API."""

    whole: Callable[[Answer, int, str, int], Json]
    events: Callable[[Answer, int, str, int], Iterator[Event]]


WIRES = {
    "openai": Wire(wire.chat_whole, wire.chat_events),
    "openai_responses": Wire(responses_wire.whole, responses_wire.events),
    "anthropic": Wire(wire.messages_whole, wire.messages_events),
}


def read(provider: str, events: Iterable[Json]) -> list[ModelOutputDelta]:
    """The deltas that a provider's reader makes of events."""
    reader: ResponseReader = PROVIDERS[provider].reader()
    deltas = [delta for event in events for delta in reader.read(event)]
    last = reader.finish()
    return [*deltas, last] if last else deltas


def streamed(provider: str, answer: Answer) -> list[ModelOutputDelta]:
    """The deltas of a response that is streamed without faults."""
    # The SDKs drop pings.
    events = [data for name, data in WIRES[provider].events(answer, 1, "model", 100) if name != "ping"]
    return read(provider, events)


def collected(provider: str, answer: Answer) -> Completion:
    return collect(streamed(provider, answer))


def whole(provider: str, answer: Answer) -> dict[str, Any]:
    """The same response, not streamed."""
    return WIRES[provider].whole(answer, 1, "model", 100)
