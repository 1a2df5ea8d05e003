"""Strings that make a backtracking pattern explode, made from the pattern itself.

A pattern takes more than linear time when it can begin in many places and reads far from each of them before
it fails, or when it can split the same text in many ways. So: what the pattern accepts up to each of its
places, repeated; and each of its repetitions pumped behind what leads to it, with an end that fits nothing.
"""

import re
import re._compiler as compiler  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

CHARACTERS = "a \n\t\rA0/-_.:;<>=,'\"`{}[]()\\|@#~+*%&?!$^é\x1b\x00\u2003😀"
"""A class or a dot of the pattern is filled with each of these that it accepts."""
MARKS = r"<parameter=a> </parameter> <function=a> <think> </think> <command-name> ``` \' \\ a=' key- /a a,b"
FIXED = (*CHARACTERS, *MARKS.split(), "```bash\n", "\n\n", " \n", "\r\n", "a=1, ", "\x1b[")
"""Tried on every pattern."""
_REPEATS = (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT)
_CLASSES = (parser.LITERAL, parser.NOT_LITERAL, parser.ANY, parser.IN)
_NEVER = "\x01\x02"
"""The end of an attack, which makes the pattern backtrack."""


class Attack(NamedTuple):
    """A beginning, a part that is repeated up to the wanted length, and an end."""

    beginning: str
    pump: str
    end: str

    def text(self, length: int) -> str:
        """The attack with at least this many characters."""
        return self.beginning + self.pump * (length // len(self.pump) + 1) + self.end


def attacks(pattern: "re.Pattern[Any]", characters: str = CHARACTERS) -> set[Attack]:
    """The attacks on one pattern. Its classes are filled with each of the characters that they accept."""
    source = pattern.pattern
    written = source if isinstance(source, str) else source.decode("latin-1")
    parsed = parser.parse(written, pattern.flags & ~re.UNICODE)
    all_attacks = {Attack("", pump, end) for pump in FIXED for end in ("", _NEVER)}
    for preferred in characters:
        for alternative in range(3):
            sampler = _Sampler(parsed.state, preferred, alternative)
            for before, pump in _places(sampler, list(parsed), ""):
                for beginning, repeated in (("", before), ("", before + pump), (before, pump)):
                    if repeated:
                        all_attacks |= {Attack(beginning, repeated, ""), Attack(beginning, repeated, _NEVER)}
    return all_attacks


class _Sampler:
    """Finds a text that a part of a pattern accepts."""

    def __init__(self, state: Any, preferred: str, alternative: int) -> None:
        self.state, self.preferred, self.alternative = state, preferred, alternative

    def text_for(self, items: list[Any]) -> str:
        return "".join(self._text_for(operator, argument) for operator, argument in items)

    def _text_for(self, operator: Any, argument: Any) -> str:
        if operator in _CLASSES:
            accepted = _accepted(operator, repr(argument), _Holder(argument), self.state.flags)
            return self.preferred if self.preferred in accepted else accepted[:1]
        if operator in _REPEATS:
            minimum, maximum, body = argument
            return self.text_for(list(body)) * int(max(minimum, min(1, maximum)))
        return "".join(self.text_for(part) for part in self.parts(operator, argument))

    def parts(self, operator: Any, argument: Any) -> list[list[Any]]:
        """The parts inside an item; one of several alternatives."""
        if operator is parser.SUBPATTERN:
            return [list(argument[-1])]
        if operator is parser.BRANCH:
            branches = argument[1]
            return [list(branches[self.alternative % len(branches)])]
        if operator is parser.ATOMIC_GROUP:
            return [list(argument)]
        if operator is parser.ASSERT:
            return [list(argument[1])]
        return []


class _Holder:
    """Keeps an unhashable argument out of the key of the cache, which has its ``repr`` instead."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder)

    def __hash__(self) -> int:
        return 0


@lru_cache(4096)
def _accepted(operator: Any, key: str, argument: _Holder, flags: int) -> str:
    """The characters that a class accepts, or the literal itself."""
    if operator is parser.LITERAL:
        return str(chr(argument.value))
    state = parser.State()
    state.flags, state.str = flags, ""
    pattern = compiler.compile(parser.SubPattern(state, [(operator, argument.value)]), flags)
    return "".join(character for character in CHARACTERS if pattern.fullmatch(character))


def _places(sampler: _Sampler, items: list[Any], before: str) -> Iterator[tuple[str, str]]:
    """For each place of the pattern what leads to it, and what can be repeated there, if anything."""
    for number, (operator, argument) in enumerate(items):
        lead = before + sampler.text_for(items[:number])
        if operator in _REPEATS:
            yield lead, sampler.text_for(list(argument[2]))
            yield from _places(sampler, list(argument[2]), lead)
        else:
            yield lead, ""
            for part in sampler.parts(operator, argument):
                yield from _places(sampler, part, lead)
    yield before + sampler.text_for(items), ""
