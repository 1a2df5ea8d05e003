"""What is kept of a step for choosing contexts: worked out once, when the step is written.

An excerpt holds the call in one line, the identifiers of its arguments, and those source lines of its results
that tell most identifiers for their length. It is bounded whatever the step's size, so that a policy can read
many steps without looking at a body.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from historyapp.core.episodes import Episode
from historyapp.core.formats.turns import returned
from historyapp.core.identifiers import identifiers, new_identifiers, texts_in
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter

T = TypeVar("T")

LONGEST_PIECE = 200
"""Characters; longer lines are broken into pieces."""
_LONGEST_CALL = 240
_KEPT = 1200  # characters of result lines
_OTHERS = 600  # characters of further names
_PIECES_READ = 1000
_NAMES_OF_CALL = 30
_NAMES_OF_LINE = 8
_MANY = 4  # names beyond which a line is not worth more
_BLANKS = re.compile(r"\s+")
_FAILURES = ("rror", "xception", "ailed", "FAIL", "ot found", "o such ")


class Line(NamedTuple):
    """A source line of a result, or a piece of a long one."""

    text: str
    tokens: int
    names: tuple[str, ...]
    """The identifiers in it that stand in no earlier line of the step."""


class Excerpt(NamedTuple):
    """The stored facts of a step."""

    call: str = ""
    """What was done, on one line; what was said, where nothing was done."""
    call_tokens: int = 0
    names: tuple[str, ...] = ()
    """Identifiers in the arguments."""
    lines: tuple[Line, ...] = ()
    """Of the results, in their order."""
    others: tuple[str, ...] = ()
    """Further identifiers of the results, in no kept line."""
    told: int = 0
    """How many identifiers the results have in all."""
    said_tokens: int = 0
    """What the model wrote, arguments included."""
    result_tokens: int = 0

    def dump(self) -> list[Any]:
        """As stored: a JSON list."""
        lines = [[line.text, line.tokens, " ".join(line.names)] for line in self.lines]
        return [self.call, self.call_tokens, " ".join(self.names), lines, " ".join(self.others), *self[5:]]

    @classmethod
    def load(cls, data: Sequence[Any]) -> "Excerpt":
        """From its stored form; the empty list gives an empty excerpt."""
        if not data:
            return cls()
        call, call_tokens, names, lines, others, *counts = data
        kept = tuple([Line(text, tokens, tuple(found.split())) for text, tokens, found in lines])
        return cls(call, call_tokens, tuple(names.split()), kept, tuple(others.split()), *counts)


def excerpt_of(episode: Episode, said_tokens: int, result_tokens: int, count: TokenCounter) -> Excerpt:
    """The excerpt of a step. What its output and its results cost was counted when these were written."""
    output = episode.output
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    arguments = [text for call in calls for text in texts_in(call.arguments)]
    told = "; ".join(f"{call.name}: {' '.join(texts_in(call.arguments))}" for call in calls)
    call = one_line(told or output.text, _LONGEST_CALL)
    own = dict.fromkeys(name for text in arguments for name in identifiers(text[: 4 * _KEPT]))
    lines, others, all_names = _results("\n".join(map(returned, episode.results)), count)
    return Excerpt(
        call=call,
        call_tokens=count(call) if call else 0,
        names=tuple(islice(own, _NAMES_OF_CALL)),
        lines=lines,
        others=others,
        told=all_names,
        said_tokens=said_tokens,
        result_tokens=result_tokens,
    )


def one_line(text: str, longest: int) -> str:
    """The beginning of a text on one line."""
    text = clean(_BLANKS.sub(" ", text[: longest * 2])).strip()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def pieces(text: str) -> Iterator[str]:
    """The text's lines; long ones in pieces of at most 200 characters, broken after a comma or a blank."""
    for line in text.split("\n"):
        start = 0
        while len(line) - start > LONGEST_PIECE:
            end = start + _break(line[start : start + LONGEST_PIECE])
            yield line[start:end]
            start = end
        yield line[start:]


def _break(window: str) -> int:
    """Where to break a line: after an object's end or a comma in its second half, else after a blank."""
    end = max(window.rfind("}, ") + 2, window.rfind(", ", LONGEST_PIECE // 2) + 1)
    if end < LONGEST_PIECE // 2:
        end = window.rfind(" ", LONGEST_PIECE // 2) + 1
    return end or LONGEST_PIECE


class Piece(NamedTuple):
    rank: float
    """How much it tells for its length; the smallest tells most."""
    place: int
    text: str
    names: list[str]
    """Its identifiers that stand in no piece before it."""


def telling_pieces(text: str) -> list[Piece]:
    """The pieces of a text with an identifier that is new there, or that tell of a failure; best first."""
    parts = list(islice(pieces(text), _PIECES_READ))
    found = []
    for index, (part, names) in enumerate(zip(parts, new_identifiers(parts), strict=True)):
        worth = min(len(names), _MANY) + 2 * any(word in part for word in _FAILURES)
        if worth:
            found.append(Piece(-worth / (20 + len(part)), index, part, names))
    found.sort()
    return found


def _results(text: str, count: TokenCounter) -> tuple[tuple[Line, ...], tuple[str, ...], int]:
    """Of all results: the lines to keep, further names, and how many names there are in all."""
    ranked = telling_pieces(text)
    kept = _within(ranked, [len(piece.text) for piece in ranked], _KEPT)
    rest = [name for piece in ranked[len(kept) :] for name in piece.names]
    others = _within(rest, [len(name) + 1 for name in rest], _OTHERS)
    lines = []
    for piece in sorted(kept, key=lambda piece: piece.place):
        line = clean(piece.text.rstrip())
        lines.append(Line(line, count(line), tuple(piece.names[:_NAMES_OF_LINE])))
    return tuple(lines), tuple(others), sum(len(piece.names) for piece in ranked)


def _within(items: list[T], sizes: list[int], room: int) -> list[T]:
    """As many of the first items as have room."""
    for number, size in enumerate(sizes):
        room -= size
        if room < 0:
            return items[:number]
    return items
