"""How long providers ask to wait. The rest of the module is tested over a wire, in ``test_calling``."""

import pytest

from historyapp.llm import transport
from historyapp.llm.errors import AnswerBroken
from historyapp.llm.request import TimeLimits
from historyapp.llm.transport import Deadline, retry_after
from tests.llm.conftest import Api, Caller
from tests.llm.loopback import Answer, Loopback

NOON = 1_760_000_400.0  # Thu, 09 Oct 2025 09:00:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Thu, 09 Oct 2025 09:01:30 GMT"}, 90),
        ({"retry-after": "Thu, 09 Oct 2025 08:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=lambda: NOON) == seconds


def test_a_deadline_runs_down() -> None:
    times = iter([10.0, 12.0, 31.0])
    deadline = Deadline(TimeLimits(total=20), clock=lambda: next(times))
    assert (deadline.left(), deadline.left()) == (18, -1)


def test_an_answer_without_end_is_cut_off(
    loopback: Loopback, api: Api, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER", 100_000)
    loopback.steps.append(Answer(text="a" * 200_000, sizes=(1000,)))
    with pytest.raises(AnswerBroken, match="more than 100000 bytes"):
        caller.deltas(api.request())
    assert len(loopback.requests) == 1
