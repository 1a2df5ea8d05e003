"""No text makes a pattern of the tree take more than linear time."""

import re
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.attacks import CHARACTERS, Attack, attacks
from tests.examples import thorough
from tests.patterns_in_tree import Use, uses

FEW = "a \n0<-"
LENGTH = 8_192
"""Characters. A quadratic pattern takes 16 times as long for them as for a quarter of them."""
LONG = 1_048_576
MAX_SECONDS = 0.5
"""Seconds of processor time. A linear pattern takes up to 0.1 s, a quadratic one at least 10 s."""
SIGNIFICANT = 0.012
"""Seconds; shorter times say nothing. A quadratic pattern takes longer for 8,192 characters."""
MAX_GROWTH = 9
LIMIT = 0.2
"""Seconds of processor time for `LENGTH` characters after which a match is broken off."""


class TooLong(Exception):
    """A match took longer than the limit."""


@pytest.fixture(autouse=True)
def _raises_at_the_time_limit() -> Iterator[None]:
    """Lets ``time_limit`` raise ``TooLong``: Python looks for signals while it matches."""

    def end(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, end)
    yield
    signal.signal(signal.SIGVTALRM, before)


@contextmanager
def time_limit(limit: float) -> Iterator[None]:
    """Raises ``TooLong`` in the block after this time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def seconds(use: Use, text: str) -> float:
    given: Any = text if isinstance(use.pattern.pattern, str) else text.encode()
    function, arguments = getattr(use.pattern, use.way), ("", given) if "sub" in use.way else (given,)
    started = time.thread_time()
    found = function(*arguments)
    if use.way == "finditer":
        deque(found, maxlen=0)
    return time.thread_time() - started


def problem(use: Use, attack: Attack) -> str:
    """Says that the time grows too fast, if it does. A short time needs no second measurement."""
    try:
        with time_limit(LIMIT):
            taken = shortest_seconds(use, attack.text(LENGTH))
            before = shortest_seconds(use, attack.text(LENGTH // 4)) if taken > SIGNIFICANT else taken
    except TooLong:
        return f"{use.place} {use.way} {attack}: over {LIMIT} s for {LENGTH:,} characters"
    if taken > max(SIGNIFICANT, MAX_GROWTH * before):
        return f"{use.place} {use.way} {attack}: {before:.4f}, then {taken:.4f} s for {LENGTH:,}"
    return ""


def shortest_seconds(use: Use, text: str) -> float:
    """Measures again what takes long, as something else may have run meanwhile."""
    taken = seconds(use, text)
    return min(taken, *(seconds(use, text) for _ in range(5))) if taken > SIGNIFICANT else taken


def first_problem(use: Use, characters: str) -> str:
    """The problem of the first attack that has one.

    If the characters are few, only attacks with an end that fits nothing are tried: they take as long as
    those without an end, or longer.
    """
    tried = sorted(attacks(use.pattern, characters))
    found = (problem(use, attack) for attack in tried if attack.end or characters != FEW)
    return next(filter(None, found), "")


@pytest.mark.parametrize("characters", [FEW, thorough(CHARACTERS)])
def test_every_pattern_takes_linear_time(characters: str) -> None:
    found = [first_problem(use, characters) for use in uses()]
    assert [each for each in found if each] == []


@pytest.mark.parametrize("length", [thorough(LONG)])
def test_every_pattern_reads_a_megabyte_at_once(length: int) -> None:
    assert [each for use in uses() for each in slow_attacks(use, length)] == []


def slow_attacks(use: Use, length: int) -> Iterator[str]:
    """The attacks on a pattern that take longer than ``MAX_SECONDS`` in two measurements."""
    for attack in sorted(attacks(use.pattern, FEW)):
        if not attack.end:  # with an end that fits nothing it takes as long or longer
            continue
        text = attack.text(length)
        for _ in range(2):
            try:
                with time_limit(MAX_SECONDS):
                    seconds(use, text)
                break
            except TooLong:
                continue
        else:
            yield f"{use.place} {use.way} {attack}: over {MAX_SECONDS} s for {length:,} characters"


def test_the_patterns_of_every_module_are_found() -> None:
    """If this number falls by much, the search for patterns has a gap."""
    found = uses()
    assert len({use.pattern for use in found}) >= 60
    assert {use.place.partition("/")[0] for use in found} == {"historyapp", "dashboard"}


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (r"<parameter=([^>\s]+)>(.*?)</parameter>", "findall"),
        (r"<command-(name|args)>(.*?)</command-\1>", "findall"),
        (r"<think>(.*?)</think>\s*", "sub"),
        (r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n?```", "findall"),
        (r"^[\s\-*#>\"']*(goal|state)[\"'*]*\s*[:：=]\s*(\S.*)$", "findall"),
        (r"<(?=\s*/?\s*[\w-]*-[0-9a-f]{16})", "search"),
        (r"(\w+\s?)*$", "match"),
        (r"(a|aa)+$", "match"),
    ],
)
def test_the_attacks_find_patterns_that_are_not_linear(
    pattern: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.test_linear_patterns.LIMIT", 4 * SIGNIFICANT)  # to break off sooner
    compiled = re.compile(pattern, re.DOTALL | re.MULTILINE)
    assert first_problem(Use("here", compiled, way), FEW)
