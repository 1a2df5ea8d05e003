"""A server that stops leaves no model call with a reservation and a running key behind."""

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

from historyapp.front.application import Front
from historyapp.front.model_calls import ModelCallProcess
from historyapp.front.pool_names import CALLS
from historyapp.processes import REQUEST_SECONDS
from tests.front.limits import small_limits
from tests.front.virtual_time import VirtualTimeLoop


def front_with(model_calls: Mock) -> Front:
    return Front(lambda environ, start: [], small_limits(), 1, {CALLS: model_calls})


def test_model_calls_are_cancelled_when_the_time_of_running_requests_is_over() -> None:
    model_calls = Mock(spec=ModelCallProcess)

    async def stop() -> list[bool]:
        front_with(model_calls)._stop()
        await asyncio.sleep(REQUEST_SECONDS - 0.1)
        before = model_calls.cancel.called
        await asyncio.sleep(0.2)
        return [before, model_calls.cancel.called]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(stop()) == [False, True]


def test_the_server_stops_after_its_cancelled_model_calls_have_ended() -> None:
    happened = list[str]()
    model_calls = Mock(spec=ModelCallProcess, end=lambda: happened.append("ended"))
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: dict[str, Any]) -> None:
        happened.append(message["type"])

    front = front_with(model_calls)
    # In a thread, where it does not set the signal handlers of this process.
    thread = threading.Thread(target=lambda: asyncio.run(front._lifespan(receive, send)))
    thread.start()
    thread.join(10)
    assert happened == ["lifespan.startup.complete", "ended", "lifespan.shutdown.complete"]


def test_a_stop_also_waits_for_calls_of_a_process_that_has_grown() -> None:
    model_calls, grown, current = ModelCallProcess(60), Mock(), Mock()
    model_calls._retired, model_calls._process.child = grown, current
    model_calls.end()
    assert grown.has_ended.called
    assert current.has_ended.called
