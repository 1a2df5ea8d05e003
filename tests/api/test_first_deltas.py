"""What a model call keeps before its response starts."""

from collections.abc import Callable, Generator
from itertools import chain, repeat
from typing import Any, cast

import pytest

from historyapp.api import model_calls
from historyapp.api.auth import ApiRequest
from historyapp.api.model_calls import MAX_WITHOUT_CONTENT, ModelCallEvents
from historyapp.core.usage import Usage
from historyapp.llm.deltas import ModelOutputDelta, StartedDelta, TextDelta, UsageDelta
from historyapp.services.model_calls import ModelCall

STARTED = StartedDelta(provider="anthropic", model="m", id="x")
USAGE = UsageDelta(usage=Usage(), raw={"input_tokens": 1})
TEXT = TextDelta(text="a")


class Deltas:
    """A model call with these deltas."""

    def __init__(self, *parts: Any) -> None:
        self.taken = 0
        self._parts = parts

    def deltas(self, on_append: Callable[..., None]) -> Generator[ModelOutputDelta]:
        for delta in chain(*self._parts):
            self.taken += 1
            yield delta


def kinds(call: Deltas) -> list[str]:
    events = ModelCallEvents(cast(ApiRequest, None), cast(ModelCall, call))
    return [delta.kind for delta in events._first_deltas]


def test_only_the_newest_usage_is_kept_until_the_response_starts() -> None:
    """Each may have 10,000 characters: a provider filled 1.3 GB with them for one call."""
    assert kinds(Deltas([STARTED], repeat(USAGE, 50), [TEXT])) == ["started", "usage", "text"]


@pytest.mark.parametrize("delta", [USAGE, STARTED])
def test_a_provider_without_content_does_not_delay_the_response_for_ever(delta: ModelOutputDelta) -> None:
    """Only a response that has started notices that its client has left."""
    call = Deltas(repeat(delta))
    assert kinds(call) == [delta.kind]
    assert call.taken == MAX_WITHOUT_CONTENT


def test_a_response_begins_after_some_seconds_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "MAX_WAIT", 0)
    call = Deltas([STARTED], repeat(USAGE))
    assert kinds(call) == ["started"]
    assert call.taken == 1
