"""The scores of identifiers, from which ``notes`` chooses lines and names.

A score is roughly the chance, in per cent, that the next action uses the identifier. The chances were counted
in recorded sessions (``bench/quality/chances.py``; docs/context-quality.md has the counts).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import inf
from typing import NamedTuple

FRESH_LINES = 0.5
"""Share for lines of the room for lines and names that appear nowhere else."""
EXCESS = 1.1
"""A note may exceed its room by this factor. Names of random letters take more tokens than expected."""
USED = 1.6
"""The score of an identifier that the newest step wrote into its arguments, for the first time."""
REPEATED = 0.9
"""The score grows with the number of steps that wrote the identifier, to the power of this exponent."""
READ = 2.0
"""The score of an identifier that the newest step only read, multiplied by the root of the number of
identifiers read with it."""
NUMBER = 0.6
"""Factor for numbers and hashes that were only read. Most are sizes, dates and line numbers."""
AGE = 0.85
"""Exponent by which scores fall with the steps since an identifier was last written, or else last read."""
SOURCE = 0.3
"""Share of an identifier's score that the line where it first appeared keeps when the context has the bare
identifier elsewhere."""
NUMBER_CHARACTERS = "0123456789abcdef.:_-"
"""A name with only these characters counts as a number or hash. So do a few words, such as ``add``."""


def name_tokens(names: Iterable[str]) -> dict[str, int]:
    """About how many tokens each name takes, with a blank. Names that begin with a digit take more."""
    return {name: len(name) // 2 + 1 if "0" <= name < ":" else len(name) // 4 + 1 for name in names}


def earlier_name_tokens(names: Iterable[str]) -> dict[str, int]:
    """As until 2026-11-30: up to twice as many."""
    return {name: len(name) // 3 + 2 for name in names}


class Scoring(NamedTuple):
    """What differs between versions."""

    read: float
    number: float
    source: float
    fresh_lines: float
    name_tokens: Callable[[Iterable[str]], dict[str, int]]
    short_name: int
    """Few names take fewer tokens than this."""
    excess: float
    """A note has fewer names if it takes more than its room times this factor."""


SCORING = Scoring(READ, NUMBER, SOURCE, FRESH_LINES, name_tokens, 3, EXCESS)
EARLIER_SCORING = Scoring(1.0, 1.0, 0.5, 0.4, earlier_name_tokens, 4, inf)  # until 2026-11-30


@lru_cache(8)
def age_factors(count: int) -> list[float]:
    """The factor of each age up to ``count`` steps."""
    return [(1 + age) ** -AGE for age in range(count)]
