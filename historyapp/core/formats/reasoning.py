"""Determines which reasoning blocks of an output can be sent again, and in which order.

Providers verify signed and encrypted blocks against everything before them. So a block is sent exactly as it
was recorded, at the place that it had in its response, or not at all.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from historyapp.core.context import Item
from historyapp.core.conversation import output_text
from historyapp.core.entries import ModelOutput
from historyapp.core.formats.base import Format, Piece
from historyapp.core.text import clean_value

Sendable = Literal["all", "none", "foreign"]
"""``all``: every block of the format's provider can be sent. ``none``: one cannot, so none is sent.
``foreign``: the provider made no block."""


def own_blocks(format: Format, output: ModelOutput) -> list[dict[str, Any]]:
    """The reasoning blocks that the format's provider made, as they were recorded."""
    blocks = [block for block in output.reasoning if isinstance(block, dict)]
    return [block for block in blocks if _piece(format, block) == "reasoning"]


def sendable(format: Format, output: ModelOutput) -> Sendable:
    """Which reasoning blocks of an output the format's provider accepts again."""
    blocks = own_blocks(format, output)
    if not blocks:
        return "foreign"
    exact = all(format.is_exact(block) and clean_value(block) == block for block in blocks)
    return "all" if exact and response_order(format, output, len(blocks)) else "none"


def response_order(format: Format, output: ModelOutput, blocks: int) -> list[Piece]:
    """The pieces of a response in their order; empty if the request cannot repeat it.

    A response whose order was not recorded begins with its reasoning, as providers write it.

    Args:
        blocks: the number of its reasoning blocks.
    """
    has_text = bool(output_text(output).strip())
    counts: dict[Piece, int] = {"reasoning": blocks, "text": has_text, "call": len(output.tool_calls)}
    pieces = [piece for piece, count in counts.items() for _ in range(count)]
    if len(pieces) == blocks:
        return []  # reasoning alone is not sent
    message = output.raw_message or {}
    lists = [message[name] for name in ("output", "content") if isinstance(message.get(name), list)]
    listed: list[Any] = lists[0] if lists else []
    recorded = [_piece(format, block) for block in listed if isinstance(block, dict)]
    if "reasoning" not in recorded:
        return pieces
    last = max(index for index, piece in enumerate(recorded) if piece == "reasoning")
    if "" in recorded[:last]:
        return []  # the request does not repeat what the provider's own tools returned
    order: list[Piece] = []
    for piece in recorded:
        if piece and not (piece == "text" and (not has_text or order[-1:] == ["text"])):
            order.append(piece)
    return order if Counter(order) == Counter(pieces) else []


def in_response_order(format: Format, output: ModelOutput, written: Iterable[Item]) -> list[Item]:
    """The reasoning blocks of an output that can be sent, among its written text and calls."""
    blocks = own_blocks(format, output)
    remaining: dict[Piece, list[Item]] = {"reasoning": blocks[::-1], "text": [], "call": []}
    for item in written:
        piece = _piece(format, item)
        assert piece, f"{format.name} writes blocks whose type it does not declare"
        remaining[piece].insert(0, item)
    return [remaining[piece].pop() for piece in response_order(format, output, len(blocks))]


def _piece(format: Format, block: Mapping[str, Any]) -> Piece | Literal[""]:
    """What a block of a response is; empty for a type that a request cannot repeat."""
    kind = block.get("type")
    kinds: dict[Piece, Collection[str]] = {
        "reasoning": format.reasoning_kinds, "text": format.text_kinds, "call": format.call_kinds,
    }  # fmt: skip
    return next((piece for piece, names in kinds.items() if isinstance(kind, str) and kind in names), "")
