"""Cached properties, which threads of all projects read."""

from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast

from historyapp.core.projection import Tail
from historyapp.models import Session
from historyapp.models.history import History


class SlowSession(SimpleNamespace):
    begun: Event
    may_end: Event

    @property
    def live_tail(self) -> Tail:
        self.begun.set()
        self.may_end.wait()
        return Tail(input_preview="slow")


def test_a_property_that_takes_long_does_not_stop_those_of_other_objects() -> None:
    begun, may_end = Event(), Event()
    slow = history_of(SlowSession(begun=begun, may_end=may_end))
    other = history_of(SimpleNamespace(live_tail=Tail(input_preview="other")))
    found: list[Tail] = []

    def read(history: History) -> None:
        found.append(history.tail)

    threads = [Thread(target=read, args=(each,), daemon=True) for each in (slow, other)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    threads[1].join(5)
    previews = [tail.input_preview for tail in found]
    may_end.set()
    threads[0].join(5)
    assert previews == ["other"]


def history_of(session: Any) -> History:
    history = History.__new__(History)
    history.session, history.as_of = cast("Session", session), None
    return history
