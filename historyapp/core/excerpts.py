"""What is kept of a step for choosing contexts: worked out once, when the step is written.

An excerpt holds the call in one line, the identifiers of its arguments, and those source lines of its results
that tell most identifiers for their length. It is bounded whatever the step's size, so that a policy can read
many steps without looking at a body.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from historyapp.core.entries import ModelOutput, ToolResult
from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifiers, new_identifiers, texts_in
from historyapp.core.results import returned_text
from historyapp.core.text import clean
from historyapp.core.tokens import TokenCounter, count_tokens

T = TypeVar("T")

LONGEST_LINE = 200
"""Characters; longer lines are broken into pieces."""
_LONGEST_CALL = 240
_KEPT = 1200  # characters of result lines
_OTHERS = 600  # characters of further names
MAX_LINES_READ = 1000
"""Of a text; what comes behind them is not ranked."""
_CHARACTERS_READ = MAX_LINES_READ * (LONGEST_LINE + 1)
_NAMES_OF_CALL = 30
_NAMES_OF_LINE = 8
_MANY = 4  # names beyond which a line is not worth more
_BLANKS = re.compile(r"\s+")
_FAILURE = re.compile("rror|xception|ailed|FAIL|ot found|o such ")


class ExcerptLine(NamedTuple):
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
    lines: tuple[ExcerptLine, ...] = ()
    """Of the results, in their order."""
    others: tuple[str, ...] = ()
    """Further identifiers of the results, in no kept line."""
    result_names: int = 0
    """How many identifiers the results have in all."""
    output_tokens: int = 0
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
        kept = tuple([ExcerptLine(text, tokens, tuple(found.split())) for text, tokens, found in lines])
        return cls(call, call_tokens, tuple(names.split()), kept, tuple(others.split()), *counts)


def begin_excerpt(output: ModelOutput, tokens: int, count: TokenCounter = count_tokens) -> Excerpt:
    """What is kept of an output of ``tokens``: the call, until its results come."""
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    arguments = [text for call in calls for text in texts_in(call.arguments)]
    told = "; ".join(f"{call.name}: {' '.join(texts_in(call.arguments))}" for call in calls)
    call = one_line(told or output.text, _LONGEST_CALL)
    own = dict.fromkeys(name for text in arguments for name in identifiers(text[: 4 * _KEPT]))
    return Excerpt(
        call=call,
        call_tokens=count(call) if call else 0,
        names=tuple(islice(own, _NAMES_OF_CALL)),
        output_tokens=tokens,
    )


def continue_excerpt(
    excerpt: Excerpt,
    results: Iterable[ToolResult],
    tokens: int,
    count: TokenCounter = count_tokens,
    *,
    overall: str | None = None,
) -> Excerpt:
    """With results of ``tokens``, recorded together. Lines of earlier ones stay while they tell more."""
    texts = [*map(returned_text, results), *([overall] if overall else [])]
    found = ranked_lines("\n".join(texts))
    known = {name for line in excerpt.lines for name in line.names}.union(excerpt.others)
    if known:
        found = sorted(filter(None, (_without(piece, known) for piece in found)))
    earlier = [
        RankedLine(_rank(line.text, line.names), place - len(excerpt.lines), line.text, list(line.names))
        for place, line in enumerate(excerpt.lines)
    ]
    ranked = sorted((*earlier, *found)) if earlier else found
    kept = _within(ranked, [len(piece.text) for piece in ranked], _KEPT)
    rest = [*excerpt.others, *(name for piece in ranked[len(kept) :] for name in piece.names)]
    kept.sort(key=lambda piece: piece.place)
    return excerpt._replace(
        lines=tuple(excerpt.lines[p.place] if p.place < 0 else _line(p, count) for p in kept),
        others=tuple(_within(rest, [len(name) + 1 for name in rest], _OTHERS)),
        result_names=excerpt.result_names + sum(len(piece.names) for piece in found),
        result_tokens=excerpt.result_tokens + tokens,
    )


def excerpt_of(episode: Episode, output_tokens: int, result_tokens: int, count: TokenCounter) -> Excerpt:
    """The excerpt of a step whose results were recorded together."""
    excerpt = begin_excerpt(episode.output, output_tokens, count)
    if not episode.results:
        return excerpt
    return continue_excerpt(excerpt, episode.results, result_tokens, count)


def one_line(text: str, longest: int) -> str:
    """The beginning of a text on one line."""
    text = clean(_BLANKS.sub(" ", text[: longest * 2])).strip()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def split_lines(text: str) -> Iterator[str]:
    """The text's lines; long ones in pieces of at most 200 characters, broken after a comma or a blank."""
    for line in text.split("\n"):
        start = 0
        while len(line) - start > LONGEST_LINE:
            end = start + _break(line[start : start + LONGEST_LINE])
            yield line[start:end]
            start = end
        yield line[start:]


def _break(window: str) -> int:
    """Where to break a line: after an object's end or a comma in its second half, else after a blank."""
    end = max(window.rfind("}, ") + 2, window.rfind(", ", LONGEST_LINE // 2) + 1)
    if end < LONGEST_LINE // 2:
        end = window.rfind(" ", LONGEST_LINE // 2) + 1
    return end or LONGEST_LINE


class RankedLine(NamedTuple):
    rank: float
    """How much it tells for its length; the smallest tells most."""
    place: int
    text: str
    names: list[str]
    """Its identifiers that stand in no piece before it."""


def ranked_lines(text: str) -> list[RankedLine]:
    """The pieces of a text with an identifier that is new there, or that tell of a failure; best first."""
    text = text[:_CHARACTERS_READ]
    alarming = _FAILURE.search(text) is not None
    parts = list(islice(split_lines(text), MAX_LINES_READ))
    found = []
    for index, (part, names) in enumerate(zip(parts, new_identifiers(parts), strict=True)):
        if (names or alarming) and (rank := _rank(part, names)):
            found.append(RankedLine(rank, index, part, names))
    found.sort()
    return found


def _rank(text: str, names: Sequence[str]) -> float:
    """How much a piece tells for its length; 0 where it tells nothing, else below."""
    worth = min(len(names), _MANY) + 2 * (_FAILURE.search(text) is not None)
    return -worth / (20 + len(text))


def _without(piece: RankedLine, known: Container[str]) -> RankedLine | None:
    """The piece for what it adds to names that are known; None where it adds nothing."""
    names = [name for name in piece.names if name not in known]
    if len(names) == len(piece.names):
        return piece
    rank = _rank(piece.text, names)
    return RankedLine(rank, piece.place, piece.text, names) if rank else None


def _line(piece: RankedLine, count: TokenCounter) -> ExcerptLine:
    text = clean(piece.text.rstrip())
    return ExcerptLine(text, count(text), tuple(piece.names[:_NAMES_OF_LINE]))


def _within(items: list[T], sizes: list[int], room: int) -> list[T]:
    """As many of the first items as have room."""
    for number, size in enumerate(sizes):
        room -= size
        if room < 0:
            return items[:number]
    return items
