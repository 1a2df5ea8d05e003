"""Steps and inputs made to fit: what tells most is kept, and every cut is marked."""

from collections.abc import Iterator, Sequence
from typing import Any

from historyapp.core.budget import RequestMeter
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import pieces, telling_pieces
from historyapp.core.formats.parts import plain_text
from historyapp.core.manifest import Message
from historyapp.core.policies.units import messages_of

CUT = " […] "
BEGINNING = 0.3
"""Share of a clipped input's room for its beginning, which says what is wanted."""
_MARKS = 4  # tokens
_SHARES = (1.0, 0.75, 0.5, 0.3, 0.15, 0.05, 0.0)
_FRAMING = 8  # tokens around a message or a call, about
_ITEMS = 20  # of a list or an object in arguments, where they are clipped


def without_reasoning(episode: Episode) -> list[Message]:
    """The step in full but for its opaque reasoning, which only the newest step's provider wants back."""
    return [message.model_copy(update={"reasoning": []}) for message in messages_of(episode)]


def clipped_step(episode: Episode, tokens: int, meter: RequestMeter) -> list[Message]:
    """The step within ``tokens``: all calls and results, shortened. Where nothing fits, its smallest form."""
    messages = without_reasoning(episode)
    clipped = messages
    for share in _SHARES:
        if meter.messages(clipped) <= tokens:
            break
        clipped = _clip(messages, int(tokens * share), episode.number, meter)
    return clipped


def _clip(messages: Sequence[Message], room: int, number: int, meter: RequestMeter) -> list[Message]:
    """Words and arguments get up to half of the room, results what these leave."""
    calls = sum(len(message.tool_calls or ()) for message in messages)
    room = max(0, room - _FRAMING * (len(messages) + calls))
    said, results = messages[0], messages[1:]
    words = plain_text(said.content)
    told = [plain_text(message.content) for message in results]
    sizes = [meter.text(text) for text in told]
    own = max(room // 2, room - sum(sizes))
    update: dict[str, Any] = {"content": clip_text(words, own // 2 if calls else own, meter)}
    if said.tool_calls:
        left = max(0, own - meter.text(update["content"])) // calls
        update["tool_calls"] = [
            {**call, "arguments": _clip_value(call["arguments"], left, meter)} for call in said.tool_calls
        ]
    spent = meter.messages([said.model_copy(update=update)]) - _FRAMING * (1 + calls)
    level = fair_share(sizes, max(0, room - max(0, spent)))
    shortened = [
        message.model_copy(update={"content": clip_result(text, level, number, meter)})
        for message, text in zip(results, told, strict=True)
    ]
    return [said.model_copy(update=update), *shortened]


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
    """The beginning of a text, its last piece, and of the rest the pieces that tell most, marked between."""
    size = meter.text(text)
    if size <= tokens:
        return text
    parts = list(pieces(text))
    room = (tokens - _MARKS) * len(text) / size
    kept: set[int] = set()
    for index in _likeliest_parts(text, parts, BEGINNING * room):
        if index not in kept and len(parts[index]) < room:
            room -= len(parts[index]) + len(CUT)
            kept.add(index)
    clipped = _joined({index: parts[index] for index in kept}, CUT.strip())
    return clipped if 0 in kept and meter.text(clipped) <= tokens else clip_text(text, tokens, meter)


def _likeliest_parts(text: str, parts: Sequence[str], beginning: float) -> Iterator[int]:
    """Indexes of a text's parts in the order in which they should be kept, some twice."""
    for index, part in enumerate(parts):
        beginning -= len(part)
        if beginning < 0:
            break
        yield index
    yield len(parts) - 1
    yield from (piece.place for piece in telling_pieces(text))
    yield from range(len(parts))


def clip_result(text: str, tokens: int, number: int, meter: RequestMeter) -> str:
    """The pieces of a result that tell most, in their order, with its first one; says what is missing."""
    size = meter.text(text)
    if size <= tokens:
        return text
    note = f"[clipped: step {number} has it all]"
    room = (tokens - meter.text(note)) * len(text) / size - 4
    first, *rest = telling_pieces_with_first(text)
    kept: dict[int, str] = {}
    for index, piece in (first, *rest):
        room -= len(piece) + 3
        if room < 0:
            break
        kept[index] = piece
    if not kept:
        return note
    clipped = f"{_joined(kept, '…')}\n{note}"
    return clipped if meter.text(clipped) <= tokens else clip_text(clipped, tokens, meter) or note


def _joined(kept: dict[int, str], mark: str) -> str:
    """Pieces in the order of their places, with a mark where some are missing."""
    lines: list[str] = []
    last = -1
    for index in sorted(kept):
        if index != last + 1:
            lines.append(mark)
        lines.append(kept[index])
        last = index
    return "\n".join(lines)


def telling_pieces_with_first(text: str) -> list[tuple[int, str]]:
    """Pieces with their places, best first; the first piece of the text leads: it often says what it is."""
    first = next(pieces(text))
    ranked = [(piece.place, piece.text) for piece in telling_pieces(text) if piece.place]
    return [(0, first), *ranked]


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
