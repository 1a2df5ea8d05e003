"""Steps and inputs made to fit: the lines with the most information stay, and every cut is marked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from historyapp.core.budget import RequestMeter
from historyapp.core.content import plain_text
from historyapp.core.conversation import Turn, output_text
from historyapp.core.entries import ModelOutput
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import MAX_LINES_READ, ranked_lines, split_lines
from historyapp.core.results import as_text, reported_text, returned_text

CUT = " […] "
BEGINNING = 0.3
"""Share of a clipped input's room for its beginning, which usually states the task."""
_MARKS = 4  # tokens
_SHARES = (1.0, 0.75, 0.5, 0.3, 0.15, 0.05, 0.0)
_FRAMING = 8  # tokens around a message or a call, about
_ITEMS = 20  # of a list or an object in arguments, where they are clipped


def without_reasoning(episode: Episode) -> Turn:
    """The step without its opaque reasoning, which providers need back only with the newest step."""
    turn = episode.turn
    return replace(turn, output=turn.output.model_copy(update={"reasoning": []}))


def clipped_step(episode: Episode, tokens: int, meter: RequestMeter) -> Turn:
    """The step within ``tokens``: all calls and results, shortened. Where nothing fits, its smallest form."""
    turn = without_reasoning(episode)
    clipped = turn
    for share in _SHARES:
        if meter.write(clipped).tokens <= tokens:
            break
        clipped = _clip(turn, int(tokens * share), episode.number, meter)
    return clipped


def _clip(turn: Turn, room: int, number: int, meter: RequestMeter) -> Turn:
    """Text and arguments get up to half of the room, results get the rest."""
    output, calls = turn.output, len(turn.output.tool_calls)
    if calls:
        received = [*map(returned_text, turn.results), *turn.remarks]
    else:
        received = [*(reported_text(result, output) for result in turn.results), *turn.remarks]
    room = max(0, room - _FRAMING * (1 + len(received) + calls))
    sizes = [meter.text(text) for text in received]
    own = max(room // 2, room - sum(sizes))
    words = clip_text(output_text(output), own // 2 if calls else own, meter)
    left = max(0, own - meter.text(words)) // max(1, calls)
    shortened = [
        call.model_copy(update={"arguments": _clip_value(call.arguments, left, meter)})
        for call in output.tool_calls
    ]
    short = ModelOutput(text=words, tool_calls=tuple(shortened))
    alone = meter.write(Turn(turn.position, short, tuple([as_text(r, "") for r in turn.results[:calls]])))
    spent = alone.tokens - _FRAMING * (1 + calls)
    level = fair_share(sizes, max(0, room - max(0, spent)))
    texts = [clip_result(text, level, number, meter) for text in received]
    results = zip(turn.results[:calls], texts[:calls], strict=True)
    clipped = tuple([as_text(result, text) for result, text in results])
    return Turn(turn.position, short, clipped, tuple(texts[calls:]))


def fair_share(sizes: Sequence[int], room: int) -> int:
    """The size to which the larger ones must be cut so that all fit: the smaller ones stay whole."""
    rest = sorted(sizes)
    while rest and rest[0] * len(rest) <= room:
        room -= rest.pop(0)
    return room // len(rest) if rest else max(sizes, default=0)


def clip_text(text: str, tokens: int, meter: RequestMeter) -> str:
    """The beginning and the end of a text, marked in the middle; empty where nothing has room."""
    size = meter.text(text)
    if size <= tokens:
        return text
    keep = len(text)
    while keep > 8:
        keep = min(keep * 3 // 4, int(keep * tokens / size * 0.95))
        end = keep // 3
        clipped = text[: keep - end].rstrip() + CUT + text[len(text) - end :].lstrip()
        size = max(1, meter.text(clipped))
        if size <= tokens:
            return clipped
    return ""


def clip_input(text: str, tokens: int, meter: RequestMeter) -> str:
    """The beginning of a text, its last line, and the best lines between them, with marks for the cuts."""
    size = meter.text(text)
    if size <= tokens:
        return text
    parts = list(split_lines(text))
    room = (tokens - _MARKS) * len(text) / size
    kept: set[int] = set()
    for index in _likeliest_parts(text, parts, BEGINNING * room):
        if index not in kept and len(parts[index]) < room:
            room -= len(parts[index]) + len(CUT)
            kept.add(index)
    clipped = _joined({index: parts[index] for index in kept}, CUT.strip())
    return clipped if 0 in kept and meter.text(clipped) <= tokens else clip_text(text, tokens, meter)


def _likeliest_parts(text: str, parts: Sequence[str], beginning: float) -> Iterator[int]:
    """Indexes of a text's lines in the order in which they should be kept; some come twice."""
    for index, part in enumerate(parts):
        beginning -= len(part)
        if beginning < 0:
            break
        yield index
    yield len(parts) - 1
    yield from (line.place for line in ranked_lines(text))
    yield from range(len(parts))


def clip_result(text: str, tokens: int, number: int, meter: RequestMeter) -> str:
    """The first line of a result and those with the most information, in order, with a note of the cut."""
    size = meter.text(text)
    if size <= tokens:
        return text
    note = f"[clipped: step {number} has it all]"
    room = (tokens - meter.text(note)) * len(text) / size - 4
    first, *rest = ranked_lines_with_first(text)
    kept: dict[int, str] = {}
    for index, line in (first, *rest):
        room -= len(line) + 3
        if room < 0:
            break
        kept[index] = line
    if not kept:
        return note
    clipped = f"{_joined(kept, '…')}\n{note}"
    return clipped if meter.text(clipped) <= tokens else clip_text(clipped, tokens, meter) or note


def _joined(kept: dict[int, str], mark: str) -> str:
    """Lines in the order of their places, with a mark where some are missing."""
    lines: list[str] = []
    last = -1
    for index in sorted(kept):
        if index != last + 1:
            lines.append(mark)
        lines.append(kept[index])
        last = index
    return "\n".join(lines)


def ranked_lines_with_first(text: str) -> list[tuple[int, str]]:
    """Lines with their places, best first. The first line of the text leads: it often names the content.

    Of a text longer than what is ranked, the last line comes next, and the rest follows from the end, which
    often holds the outcome.
    """
    parts = list(enumerate(split_lines(text.rstrip())))
    ranked = [(line.place, line.text) for line in ranked_lines(text) if line.place]
    backwards = parts[MAX_LINES_READ:][::-1]
    return [parts[0], *backwards[:1], *ranked, *backwards[1:]]


def _clip_value(value: Any, tokens: int, meter: RequestMeter) -> Any:
    """A JSON value of the same shape with its texts shortened and long lists cut."""
    if isinstance(value, str):
        return clip_text(value, tokens, meter)
    if isinstance(value, dict):
        items = list(value.items())[:_ITEMS]
        sizes = [meter.text(plain_text(item)) for _, item in items]
        level = fair_share(sizes, max(0, tokens - 3 * len(items)))
        return {name: _clip_value(item, level, meter) for name, item in items}
    if isinstance(value, (list, tuple)):
        return [
            _clip_value(item, tokens // max(1, min(len(value), _ITEMS)), meter) for item in value[:_ITEMS]
        ]
    return value
