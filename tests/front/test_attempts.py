"""Addresses that have sent many passwords get the thread for passwords after all others."""

import asyncio
import threading
import time
from functools import partial

import pytest

from historyapp.front import attempts
from historyapp.front.all_pools import make_pools
from historyapp.front.attempts import SECONDS, PasswordAttempts
from historyapp.front.pool_names import PASSWORDS
from historyapp.front.pools import Client


def test_attempts_are_forgotten_after_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = PasswordAttempts()
    made.add(b"10.0.0.1")
    made.add(b"10.0.0.1")
    assert (made.number(b"10.0.0.1"), made.number(b"10.0.0.2")) == (2, 0)
    later = time.monotonic() + SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert made.number(b"10.0.0.1") == 0


def test_a_limited_number_of_addresses_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_ADDRESSES", 3)
    made = PasswordAttempts()
    for address in (b"1", b"2", b"3", b"1", b"4"):
        made.add(address)
    assert [made.number(address) for address in (b"1", b"2", b"3", b"4")] == [2, 0, 1, 1]


def test_the_newest_address_with_the_fewest_attempts_gets_the_next_thread() -> None:
    made = PasswordAttempts()
    pool = make_pools(1, 20, made)[PASSWORDS]
    order: list[bytes] = []
    begin, done = threading.Event(), threading.Event()

    def run(address: bytes, waited: float) -> None:
        begin.wait(10)
        order.append(address)
        if len(order) == 6:
            done.set()

    async def submit() -> None:
        numbers = {b"running": 9, b"flood 1": 5, b"flood 2": 4, b"new": 1, b"honest": 1, b"mistyped": 2}
        for address, number in numbers.items():
            for _ in range(number):
                made.add(address)
            pool.submit(Client(address, address), partial(run, address), print)
        begin.set()
        assert await asyncio.to_thread(done.wait, 10)

    asyncio.run(submit())
    assert order == [b"running", b"honest", b"new", b"mistyped", b"flood 2", b"flood 1"]
