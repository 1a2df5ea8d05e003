"""Limits of time and size. The rest of the module is tested over a wire, in ``test_calling``."""

import pytest

from historyapp.llm import transport
from historyapp.llm.errors import ResponseBroken
from historyapp.llm.request import TimeLimits
from historyapp.llm.transport import Deadline
from tests.llm.conftest import Api, Caller
from tests.llm.loopback import Answer, Loopback


def test_a_deadline_runs_down() -> None:
    times = iter([10.0, 12.0, 31.0])
    deadline = Deadline(TimeLimits(total=20), clock=lambda: next(times))
    assert (deadline.remaining(), deadline.remaining()) == (18, -1)


def test_an_endless_response_is_cut_off(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_RESPONSE", 100_000)
    loopback.steps.append(Answer(text="a" * 200_000, sizes=(1000,)))
    with pytest.raises(ResponseBroken, match="more than 100000 bytes"):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1
