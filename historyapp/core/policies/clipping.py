"""Shortens steps and inputs so that they fit: the lines with the most information stay, and every cut is
marked."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from historyapp.core.budget import RequestMeter
from historyapp.core.content import plain_text
from historyapp.core.context import Rendered
from historyapp.core.conversation import Turn, output_text
from historyapp.core.entries import ModelOutput
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import MAX_LINES_READ, ranked_lines, split_lines
from historyapp.core.results import reported_text, returned_text, with_only_text

CUT = " […] "
BEGINNING = 0.3
"""Share of a clipped input's room for its beginning, which usually states the task."""
MAX_LINES_KEPT = 100_000
"""The maximum number of lines of a text that are considered, in addition to the one at its other end."""
_MARKS = 4  # tokens
_SHARES = (1.0, 0.75, 0.5, 0.3, 0.15, 0.05, 0.0)
_FRAMING = 8  # tokens around a message or a tool call, about
_ITEMS = 20  # of a list or an object in arguments, where they are clipped


def without_reasoning(episode: Episode) -> Turn:
    """The step without its opaque reasoning, which providers need back only with the newest step."""
    turn = episode.turn
    if not turn.output.reasoning:
        return turn
    return replace(turn, output=turn.output.model_copy(update={"reasoning": []}))


def clipped_step(
    episode: Episode, tokens: int, meter: RequestMeter, *, fills: bool = False
) -> tuple[Turn, Rendered]:
    """A step shortened to ``tokens``, with all its tool calls and results, and as the format writes it.

    If no form fits, the smallest one is returned.

    Args:
        fills: see :func:`clip_result`.
    """
    clipper = _Clipper(without_reasoning(episode), episode.number, meter, fills=fills)
    # With many tool calls, most shares leave no room for texts and give the same form: it is made once.
    framing = _FRAMING * (1 + len(clipper.received) + clipper.calls)  # of all tool calls and results
    *larger, smallest = dict.fromkeys([max(0, int(tokens * share) - framing) for share in _SHARES])
    shortest: tuple[Turn, Rendered] | None = None
    for room in larger:
        clipped, written = clipper.written(room)
        if written.tokens <= tokens:
            return clipped, written
        if shortest is None and written.tokens - room > tokens:  # probably too long without texts
            shortest = clipper.written(smallest)
            if shortest[1].tokens > tokens:
                break
    return shortest or clipper.written(smallest)


class _Clipper:
    """Shortens one step to any size. Values that do not depend on the size are computed once."""

    def __init__(self, turn: Turn, number: int, meter: RequestMeter, *, fills: bool) -> None:
        self.turn, self.number, self.meter, self.fills = turn, number, meter, fills
        self.calls = len(turn.output.tool_calls)
        output = None if self.calls else turn.output
        results = [
            reported_text(result, output) if output else returned_text(result) for result in turn.results
        ]
        self.received = [*results, *turn.remarks]
        # Many parallel tool calls often have equal results. Each text is counted and clipped once.
        self.counted = {text: meter.text_tokens(text) for text in dict.fromkeys(self.received)}
        self.sizes = [self.counted[text] for text in self.received]

    def written(self, room: int) -> tuple[Turn, Rendered]:
        clipped = self.clip(room)
        return clipped, self.meter.write(clipped)

    def clip(self, room: int) -> Turn:
        """The step with about ``room`` tokens of texts. The agent's own texts get up to half of them,
        results the rest."""
        short, spent = self._clip_output(max(room // 2, room - sum(self.sizes)), shortest=room == 0)
        level = fair_share(self.sizes, max(0, room - spent))
        shown = {
            text: text
            if size <= level
            else clip_result(text, level, self.number, self.meter, size=size, fills=self.fills)
            for text, size in self.counted.items()
        }
        texts = [shown[text] for text in self.received]
        results = zip(self.turn.results[: self.calls], texts[: self.calls], strict=True)
        clipped = tuple([with_only_text(result, text) for result, text in results])
        return Turn(self.turn.position, short, clipped, tuple(texts[self.calls :]))

    def _clip_output(self, room: int, *, shortest: bool) -> tuple[ModelOutput, int]:
        """The output's text and arguments within ``room``, and their tokens; 0 if ``shortest``."""
        turn, meter = self.turn, self.meter
        text = clip_text(output_text(turn.output), room // 2 if self.calls else room, meter)
        share = max(0, room - meter.text_tokens(text)) // max(1, self.calls)
        shortened = [
            tool_call
            if (clipped := _clip_value(tool_call.arguments, share, meter)) is tool_call.arguments
            else tool_call.model_copy(update={"arguments": clipped})
            for tool_call in turn.output.tool_calls
        ]
        short = ModelOutput(text=text, tool_calls=tuple(shortened))
        if shortest:
            return short, 0  # results get no room then
        empty = tuple([with_only_text(result, "") for result in turn.results[: self.calls]])
        output_only = meter.write(Turn(turn.position, short, empty))
        return short, max(0, output_only.tokens - _FRAMING * (1 + self.calls))


def fair_share(sizes: Sequence[int], room: int) -> int:
    """The size to which the larger ones must be cut so that all fit. The smaller ones stay whole."""
    for index, size in enumerate(sorted(sizes)):
        remaining = len(sizes) - index
        if size * remaining > room:
            return room // remaining
        room -= size
    return max(sizes, default=0)


def clip_text(text: str, tokens: int, meter: RequestMeter) -> str:
    """The beginning and the end of a text, with a mark in the middle; empty if no part of it fits."""
    size = meter.text_tokens(text)
    if size <= tokens:
        return text
    keep = len(text)
    while keep > 8:
        keep = min(keep * 3 // 4, int(keep * tokens / size * 0.95))
        end = keep // 3
        clipped = text[: keep - end].rstrip() + CUT + text[len(text) - end :].lstrip()
        size = max(1, meter.text_tokens(clipped))
        if size <= tokens:
            return clipped
    return ""


def clip_input(text: str, tokens: int, meter: RequestMeter) -> str:
    """The beginning of a text, its last line, and the best lines between them, with marks for the cuts."""
    size = meter.text_tokens(text)
    if size <= tokens:
        return text
    lines = enumerate(split_lines(text))
    parts = dict(islice(lines, MAX_LINES_KEPT))
    parts.update(deque(lines, maxlen=1))
    room = (tokens - _MARKS) * len(text) / size
    kept: set[int] = set()
    for index in _lines_to_keep(text, parts, BEGINNING * room):
        if index not in kept and len(parts[index]) < room:
            room -= len(parts[index]) + len(CUT)
            kept.add(index)
    clipped = _joined({index: parts[index] for index in kept}, CUT.strip())
    return clipped if 0 in kept and meter.text_tokens(clipped) <= tokens else clip_text(text, tokens, meter)


def _lines_to_keep(text: str, parts: Mapping[int, str], beginning: float) -> Iterator[int]:
    """Indexes of a text's lines in the order in which they should be kept; some come twice."""
    for index, part in parts.items():
        beginning -= len(part)
        if beginning < 0:
            break
        yield index
    yield max(parts)
    yield from (line.place for line in ranked_lines(text))
    yield from parts


def clip_result(
    text: str,
    tokens: int,
    number: int,
    meter: RequestMeter,
    *,
    size: int | None = None,
    fills: bool = False,
) -> str:
    """The first line of a result and those with the most information, in order, with a note of the cut.

    Args:
        size: the text's tokens, if they are known.
        fills: whether lines without a name or a sign of failure take the room that the others leave.
    """
    size = meter.text_tokens(text) if size is None else size
    if size <= tokens:
        return text
    note = f"[clipped: step {number} has it all]"
    room = (tokens - meter.text_tokens(note)) * len(text) / size - 4
    kept: dict[int, str] = {}
    for index, line in lines_best_first(text, with_plain_lines=fills):
        if index in kept:
            continue
        room -= len(line) + 3
        if room < 0:
            break
        kept[index] = line
    if not kept:
        return note
    clipped = f"{_joined(kept, '…')}\n{note}"
    return clipped if meter.text_tokens(clipped) <= tokens else clip_text(clipped, tokens, meter) or note


def _joined(kept: dict[int, str], mark: str) -> str:
    """The lines in order, with a mark where some are missing."""
    lines: list[str] = []
    last = -1
    for index in sorted(kept):
        if index != last + 1:
            lines.append(mark)
        lines.append(kept[index])
        last = index
    return "\n".join(lines)


def lines_best_first(text: str, *, with_plain_lines: bool = False) -> Iterator[tuple[int, str]]:
    """Lines with their indexes. The first line of the text comes first, because it often names the content.

    If the text is longer than the part that is ranked, the last line comes next, and the rest follows from
    the end, which often holds the outcome. Lines are ranked only when the second one is requested.

    Args:
        with_plain_lines: whether the lines without rank follow, the last one first. Others may come again.
    """
    text = text.rstrip()
    lines = enumerate(split_lines(text))
    yield next(lines)
    backwards = reversed(deque(islice(lines, MAX_LINES_READ - 1, None), maxlen=MAX_LINES_KEPT))
    yield from islice(backwards, 1)
    yield from ((line.place, line.text) for line in ranked_lines(text) if line.place)
    yield from backwards
    if with_plain_lines:
        yield from reversed(list(islice(enumerate(split_lines(text)), MAX_LINES_READ)))


def _clip_value(value: Any, tokens: int, meter: RequestMeter) -> Any:
    """A JSON value of the same shape with its texts shortened and long lists cut.

    The value itself if it is an object of which nothing is shortened.
    """
    if isinstance(value, str):
        return clip_text(value, tokens, meter)
    if isinstance(value, dict):
        items = list(value.items())[:_ITEMS]
        sizes = [meter.text_tokens(plain_text(item)) for _, item in items]
        level = fair_share(sizes, max(0, tokens - 3 * len(items)))
        clipped = {name: _clip_value(item, level, meter) for name, item in items}
        is_whole = len(items) == len(value) and all(clipped[name] is item for name, item in items)
        return value if is_whole else clipped
    if isinstance(value, (list, tuple)):
        return [
            _clip_value(item, tokens // max(1, min(len(value), _ITEMS)), meter) for item in value[:_ITEMS]
        ]
    return value
