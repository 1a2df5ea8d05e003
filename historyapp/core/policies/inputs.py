"""How the ``budgeted`` policy makes inputs fit: it clips the longest, then leaves out old ones."""

from collections.abc import Sequence
from dataclasses import replace

from historyapp.core.content import plain_text
from historyapp.core.conversation import InputMessage
from historyapp.core.manifest import LeftOut
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.clipping import clip_input, fair_share
from historyapp.core.policies.parts import ContextPart

SHORT_INPUT = 16
"""Tokens to which each input is clipped before any is left out."""
TOO_MANY = "there are too many inputs"
MARK = "[…]"
"""Replaces an input when not even a part of it fits."""


def fit_inputs(
    assembly: Assembly, inputs: Sequence[InputMessage], whole: list[ContextPart], room: int
) -> list[ContextPart]:
    """Every input verbatim. If they take more than ``room`` tokens, the longest are clipped. If even then
    they do not fit, the oldest after the first one are left out.

    Args:
        whole: the parts of the inputs in full.
    """
    sizes = [part.segment.tokens for part in whole]
    if not whole or sum(sizes) <= room:
        return whole
    end = 1 + _too_many(sizes, room)
    if end > 1:
        first, last = inputs[1].position, inputs[end - 1].position
        assembly.left_out.append(LeftOut(position=first, last_position=last, reason=TOO_MANY))
    level = fair_share([*sizes[:1], *sizes[end:]], room)
    note = f"The inputs take {sum(sizes)} tokens, more than {room}: those over {level} are clipped."
    assembly.notes.append(note)
    return [
        part if part.segment.tokens <= level else clipped_input(assembly, message, level)
        for number, (message, part) in enumerate(zip(inputs, whole, strict=True))
        if not 1 <= number < end
    ]


def _too_many(sizes: Sequence[int], room: int) -> int:
    """The number of inputs after the first that do not fit even if each is clipped.

    It is rounded up, so that only some of the next inputs change the beginning of the context.
    """
    used = kept = 0
    for size in (sizes[0], *reversed(sizes[1:])):
        used += min(size, SHORT_INPUT)
        if used > room:
            break
        kept += 1
    missed = len(sizes) - max(2, kept)
    multiple = max(8, kept // 4)
    return min(max(0, len(sizes) - 2), -(-missed // multiple) * multiple) if missed > 0 else 0


def clipped_input(assembly: Assembly, message: InputMessage, tokens: int) -> ContextPart:
    """An input shortened to ``tokens``. If no part of it fits, a mark in its place."""
    text = clip_input(plain_text(message.content), max(0, tokens - 8), assembly.meter) or MARK
    return assembly.part(message, replace(message, content=text), "clipped")
