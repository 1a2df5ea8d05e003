"""Slots for heavy work are limited, in total and for each owner."""

import threading
import time

import pytest

from historyapp.core.slots import NoSlot, Slots


def test_an_owner_gets_only_its_share_and_others_the_rest() -> None:
    slots = Slots(3, of_owner=1, waiting=1)
    slots.take("alice", 0)
    with pytest.raises(NoSlot) as refused:
        slots.take("alice", 0)
    assert refused.value.is_own
    slots.take("bob", 0)
    slots.take("charlie", 0)
    with pytest.raises(NoSlot) as refused:
        slots.take("dora", 0)
    assert not refused.value.is_own
    slots.give_back("bob")
    slots.take("dora", 0)


def test_a_thread_waits_until_a_slot_is_given_back() -> None:
    slots = Slots(1, of_owner=1, waiting=1)
    slots.take("alice", 0)
    thread = threading.Timer(0.05, slots.give_back, ("alice",))
    thread.start()
    slots.take("bob", 10)
    thread.join()
    with pytest.raises(NoSlot):
        slots.take("alice", 0)


def test_threads_beyond_the_limit_of_waiting_ones_are_refused_at_once() -> None:
    slots = Slots(1, of_owner=1, waiting=1)
    slots.take("alice", 0)
    waiting = threading.Thread(target=slots.take, args=("alice", 10))
    waiting.start()
    while not slots._waiting["alice"]:
        time.sleep(0.001)
    started = time.monotonic()
    with pytest.raises(NoSlot):
        slots.take("alice", 10)
    assert time.monotonic() - started < 5
    slots.give_back("alice")
    waiting.join()
    slots.give_back("alice")
    assert not slots._taken
    assert not slots._waiting
