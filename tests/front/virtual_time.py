"""An event loop whose clock jumps to the next timer, so that tests depend on no machine's speed."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from selectors import DefaultSelector, SelectorKey
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time passes only while nothing can run: neither a task nor a function in a thread."""

    def __init__(self) -> None:
        self._now = 0.0
        self._jobs = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs a function in a thread. No time passes until it has returned."""
        self._jobs += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._note_end)
        return future

    def _note_end(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def pass_time(self, seconds: float) -> bool:
        """Moves the clock. False if a thread is at work, so that the loop must wait for it."""
        if not self._jobs:
            self._now += seconds
        return not self._jobs


class _Selector(DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and (timeout <= 0 or self._loop.pass_time(timeout))):
            return ready
        return super().select()


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end, and returns its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
