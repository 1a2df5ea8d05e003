"""The stored facts of a step that policies read, computed when a policy first reads the step.

An excerpt holds the call in one line, the identifiers of its arguments, and the lines of its results with the
most identifiers for their length. Its size is bounded, so that a policy can read many steps without bodies.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple, TypeVar

from historyapp.core.beginnings import beginning
from historyapp.core.conversation import Progress
from historyapp.core.entries import Entry, ModelOutput, ToolCall, ToolResults, UseTool
from historyapp.core.identifiers import identifiers, new_identifiers, texts_in, word_places
from historyapp.core.results import returned_text
from historyapp.core.text import clean, whole_lines
from historyapp.core.tokens import TokenCounter, count_tokens, shown_tokens

T = TypeVar("T")

MAX_LINE = 200
"""Characters; longer lines are split."""
_MAX_CALL = 240
_MAX_LINES_LENGTH = 1200  # characters of all kept result lines
_MAX_LINES = 60
_MAX_OTHERS_LENGTH = 6000  # characters of all names that are in no kept line
_MAX_OTHERS = 600
_FEW_OTHERS_LENGTH, _FEW_OTHERS = 2000, 200  # until 2026-11-30
MAX_LINES_READ = 1000
"""Lines of a text that are ranked; later lines are ignored."""
MAX_LINES_KEPT = 256
"""The lines of a text that are kept, at most 5 KB each. Later ones are computed each time."""
MAX_TEXTS_READ = 1000
"""Texts in the arguments of a step in which names are searched."""
_CHARACTERS_READ = MAX_LINES_READ * (MAX_LINE + 1)
_NAMES_OF_CALL = 30
_NAMES_OF_LINE = 8
_NAMES_OF_FOUND = 30
_MAX_RANKED_NAMES = 4  # further names do not raise the rank of a line
_FAILURES = ("rror", "xception", "ailed", "FAIL", "ot found", "o such ")


class ExcerptLine(NamedTuple):
    """A line of a result, or a part of a long one."""

    text: str
    tokens: int
    names: tuple[str, ...]
    """Its identifiers that no earlier line of the step contains."""


class Excerpt(NamedTuple):
    """The stored facts of a step."""

    call: str = ""
    """The tool calls on one line; the text of an answer without tool calls."""
    call_tokens: int = 0
    names: tuple[str, ...] = ()
    """Identifiers in the arguments."""
    lines: tuple[ExcerptLine, ...] = ()
    """Of the results, in their order."""
    others: tuple[str, ...] = ()
    """Further identifiers of the results, which are in no kept line."""
    result_names: int = 0
    """The number of identifiers in the results."""
    output_tokens: int = 0
    """Tokens of the output, arguments included."""
    result_tokens: int = 0

    @property
    def memory(self) -> int:
        """About how many bytes it takes in memory."""
        names = len(self.names) + len(self.others) + sum([len(line.names) for line in self.lines])
        return 1_000 + 300 * len(self.lines) + 70 * names

    def with_few_names(self) -> "Excerpt":
        """As versions before 2026-11-30 made it. Steps whose several results have over 200 further names can
        differ from that.
        """
        return self._replace(others=_others(self.others, _FEW_OTHERS, _FEW_OTHERS_LENGTH))

    def dump(self) -> list[Any]:
        """As stored: a JSON list."""
        lines = [[line.text, line.tokens, " ".join(line.names)] for line in self.lines]
        return [self.call, self.call_tokens, " ".join(self.names), lines, " ".join(self.others), *self[5:]]

    @classmethod
    def load(cls, data: Sequence[Any]) -> "Excerpt":
        """From its stored form; the empty list gives an empty excerpt."""
        if not data:
            return cls()
        call_line, call_tokens, names, lines, others, *counts = data
        kept = tuple(
            [ExcerptLine(text, tokens, tuple(line_names.split())) for text, tokens, line_names in lines]
        )
        return cls(call_line, call_tokens, tuple(names.split()), kept, tuple(others.split()), *counts)


def excerpts_of(entries: Iterable[Entry]) -> Iterator[tuple[int, Excerpt]]:
    """The excerpts of steps, each with the position of the step's output.

    Args:
        entries: the outputs of the steps and their results, oldest first.
    """
    output, excerpt, progress = 0, Excerpt(), Progress(status="answered")
    for entry in entries:
        body = entry.body
        if isinstance(body, ModelOutput):
            if output:
                yield output, excerpt
            output, progress = entry.position, Progress.begin(body)
            excerpt = begin_excerpt(body, entry.tokens)
        elif isinstance(body, ToolResults) and progress.pending:
            texts = [returned_text(result) for result in body.results]
            excerpt = continue_excerpt(excerpt, texts, entry.tokens, overall=body.overall)
            progress, _ = progress.add_results(body.results)
    if output:
        yield output, excerpt


def begin_excerpt(output: ModelOutput, tokens: int, count: TokenCounter = count_tokens) -> Excerpt:
    """The excerpt of an output of ``tokens``, before its results."""
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    call_line = one_line(beginning(_call_line_parts(calls), 2 * _MAX_CALL) or output.text, _MAX_CALL)
    return Excerpt(
        call=call_line,
        call_tokens=count(call_line) if call_line else 0,
        names=_argument_names(calls),
        output_tokens=shown_tokens(output, tokens, count),
    )


def _call_line_parts(calls: Sequence[UseTool | ToolCall]) -> Iterator[str]:
    """``name: text text; name: text`` in parts. Long names and texts are cut."""
    for number, tool_call in enumerate(calls):
        yield f"{'; ' if number else ''}{tool_call.name[: 2 * _MAX_CALL]}: "
        for place, text in enumerate(texts_in(tool_call.arguments)):
            yield f"{' ' if place else ''}{text[: 2 * _MAX_CALL]}"


def _argument_names(calls: Sequence[UseTool | ToolCall]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    remaining = _CHARACTERS_READ
    texts = (text for tool_call in calls for text in texts_in(tool_call.arguments))
    for text in islice(texts, MAX_TEXTS_READ):
        names |= dict.fromkeys(identifiers(text[: min(remaining, 4 * _MAX_LINES_LENGTH)]))
        remaining -= len(text)
        if len(names) >= _NAMES_OF_CALL or remaining <= 0:
            break
    return tuple(islice(names, _NAMES_OF_CALL))


def continue_excerpt(
    excerpt: Excerpt,
    results: Sequence[str],
    tokens: int,
    count: TokenCounter = count_tokens,
    *,
    overall: str | None = None,
) -> Excerpt:
    """The excerpt with further results of ``tokens`` tokens. Earlier lines stay if they rank high enough.

    Args:
        results: the texts of the results.
    """
    text = read_text(*results)
    new_lines = ranked_lines(f"{text}\n{overall}" if overall else text)
    names = {name for line in excerpt.lines for name in line.names}.union(excerpt.others)
    if names:
        new_lines = sorted(_with_new_names(new_lines, names))
    earlier = [
        RankedLine(_rank(line.text, line.names), index - len(excerpt.lines), line.text, list(line.names))
        for index, line in enumerate(excerpt.lines)
    ]
    ranked = sorted((*earlier, *new_lines)) if earlier else new_lines
    kept = _within(ranked[:_MAX_LINES], [len(line.text) for line in ranked], _MAX_LINES_LENGTH)
    further_names = (name for line in ranked[len(kept) :] for name in line.names)
    lines = []
    for line in sorted(kept, key=lambda line: line.place):
        if line.place < 0:
            lines.append(excerpt.lines[line.place])
        else:
            text = clean(line.text.rstrip())
            lines.append(ExcerptLine(text, count(text), tuple(line.names[:_NAMES_OF_LINE])))
    return excerpt._replace(
        lines=tuple(lines),
        others=_others(chain(excerpt.others, further_names), _MAX_OTHERS, _MAX_OTHERS_LENGTH),
        result_names=excerpt.result_names + sum(len(line.names) for line in new_lines),
        result_tokens=excerpt.result_tokens + tokens,
    )


def one_line(text: str, max_length: int) -> str:
    """The beginning of a text on one line, at most ``max_length`` characters."""
    text = clean(" ".join(text[: max_length * 2].split()))
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def split_lines(text: str) -> Iterator[str]:
    """The text's lines. Long lines are split after a comma or blank into parts of at most 200 characters."""
    half = MAX_LINE // 2
    for line in whole_lines(text):
        if len(line) <= MAX_LINE:
            yield line
            continue
        start = 0
        while len(line) - start > MAX_LINE:
            window = line[start : start + MAX_LINE]
            # After the end of an object, or a comma in the second half, otherwise after a blank.
            end = max(window.rfind("}, ") + 2, window.rfind(", ", half) + 1)
            end = (end if end >= half else window.rfind(" ", half) + 1) or MAX_LINE
            yield line[start : start + end]
            start += end
        yield line[start:]


class FoundLine(NamedTuple):
    """A line of a text, or a part of a long one, in which a name was looked for."""

    place: int
    """The character of the text at which it begins."""
    text: str
    tokens: int
    names: tuple[str, ...]
    """Its identifiers."""


class TextLines:
    """The lines of a text in which names first appear. Each is computed when it is first requested."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[str, FoundLine | None] = {}
        self._parts: dict[int, list[int]] = {}
        """Where the parts of a long line begin, by the beginning of the line."""
        self._names: frozenset[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """All identifiers of the text."""
        if self._names is None:
            self._names = frozenset(identifiers(self._text))
        return self._names

    def line_with(self, name: str) -> FoundLine | None:
        """The first line that contains the name, or None."""
        if name in self._lines:
            return self._lines[name]
        at = next(word_places(name, self._text), -1)
        found = self._line_at(at) if at >= 0 else None
        if len(self._lines) < MAX_LINES_KEPT:
            self._lines[name] = found
        return found

    def _line_at(self, at: int) -> FoundLine:
        text = self._text
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = end if end >= 0 else len(text)
        if end - start > MAX_LINE:
            if start not in self._parts:
                self._parts[start] = list(accumulate(map(len, split_lines(text[start:end])), initial=start))
            starts = self._parts[start]
            part = bisect_right(starts, at)
            start, end = starts[part - 1], starts[part]
        line = clean(text[start:end].rstrip())
        return FoundLine(start, line, count_tokens(line), tuple(islice(identifiers(line), _NAMES_OF_FOUND)))


def read_text(*texts: str) -> str:
    """The beginning of several texts that is read, each on lines of its own."""
    parts = (part for text in texts for part in (text[:_CHARACTERS_READ], "\n"))
    return beginning(parts, _CHARACTERS_READ).removesuffix("\n")


class RankedLine(NamedTuple):
    rank: float
    """A lower rank means more information for the length."""
    place: int
    text: str
    names: list[str]
    """Its identifiers that are in no line before it."""


def ranked_lines(text: str) -> list[RankedLine]:
    """The lines of a text with a new identifier, or with a sign of failure; best first."""
    text = text[:_CHARACTERS_READ]
    # Most texts have no sign, so their lines are not searched. A regular expression takes ten times as long.
    signs = [sign for sign in _FAILURES if sign in text]
    parts = list(islice(split_lines(text), MAX_LINES_READ))
    ranked = []
    for index, (part, names) in enumerate(zip(parts, new_identifiers(parts), strict=True)):
        if (names or signs) and (rank := _rank(part, names, signs)):
            ranked.append(RankedLine(rank, index, part, names))
    ranked.sort()
    return ranked


def _rank(text: str, names: Sequence[str], signs: Sequence[str] = _FAILURES) -> float:
    """The rank of a line: 0 without information, otherwise below 0.

    ``signs`` are the signs of failure to look for.
    """
    score = min(len(names), _MAX_RANKED_NAMES) + 2 * any(map(text.__contains__, signs))
    return -score / (20 + len(text))


def _with_new_names(lines: Iterable[RankedLine], known_names: Container[str]) -> Iterator[RankedLine]:
    """The lines with names that are not known yet, ranked by these names."""
    for line in lines:
        names = [name for name in line.names if name not in known_names]
        if len(names) == len(line.names):
            yield line
        elif rank := _rank(line.text, names):
            yield RankedLine(rank, line.place, line.text, names)


def _others(names: Iterable[str], number: int, length: int) -> tuple[str, ...]:
    """The first names, at most ``number`` and ``length`` characters."""
    first = list(islice(names, number))
    return tuple(_within(first, [len(name) + 1 for name in first], length))


def _within(items: list[T], sizes: list[int], room: int) -> list[T]:
    """The longest beginning of the items that fits into ``room``."""
    for number, size in enumerate(sizes[: len(items)]):
        room -= size
        if room < 0:
            return items[:number]
    return items
