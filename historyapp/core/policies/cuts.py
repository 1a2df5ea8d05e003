"""Where the ``budgeted`` policy cuts a session: which steps are messages, and which are notes.

A cut turns the oldest messages into notes. Between cuts a context only grows at its end, so that its
beginning stays byte-stable and provider caches hit. Cuts are replayed from stored token counts, so every
reader of the same log gets the same cuts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from historyapp.core.context import NO_CUTS, CutCost
from historyapp.core.policies.base import StepOutline

PERIOD = 48
"""Steps. The replay begins one or two periods before the newest step, at a multiple of a period."""
ROOM_OF_PERIOD = 16_384
"""Tokens. A period has :data:`PERIOD` steps for each of these in the room, as large budgets hold more."""
MAX_PERIOD = 64 * PERIOD
"""Steps. Each outlined step takes 2 to 60 KB of memory, however large the budget is."""
NEWEST = 0.2
"""Share of the room for the newest step, and for lines and names that appear nowhere else. If not
everything fits, notes and older messages share the rest."""
NOTES = 0.85
"""When the notes exceed this share of their room, all of them are chosen again."""
REFILLED = 0.75
"""The share of the notes' room that is filled when all are chosen again. The rest is for additions."""
TAIL = 0.3
"""Share of the room that older messages may fill before the next cut."""
TAIL_KEPT = 0.15
"""Share of the room that a cut leaves to messages, including the newest step."""
STEP = 0.2
"""Share of the room that one step gets among the messages once it is not the newest."""
KEPT_OF_STEP = 0.25
"""Tokens of notes for each token of messages that a cut removes."""
MIN_ADDITION = 0.04
"""The least share of the room for the notes that a cut adds."""
MIN_STEP = 60  # tokens
FRAMING = 30  # tokens around a step's texts, roughly


class NotesCut(NamedTuple):
    at: int
    """Index of the step that was the newest one when the cut was made."""
    start: int
    """Index of the first step that stayed among the messages."""
    room: int
    """Tokens for the notes that the cut adds."""


class CutPlan(NamedTuple):
    start: int
    """Index of the first step that is sent as messages."""
    cuts: tuple[NotesCut, ...]
    """The cuts since all notes were last chosen again, including that one; empty while everything fits in
    full."""
    step: int
    """Tokens for a step among the messages that is not the newest."""
    cost: CutCost = NO_CUTS


def first_outlined(newest: int, room: int = 0) -> int:
    """The number of the first outlined step.

    It is one to two periods before the newest step and stays the same for a period. ``room``: tokens for
    inputs, notes and steps; up to 32,767 tokens, a period has 48 steps, from 1,048,576 tokens on 3,072.
    """
    period = min(PERIOD * max(1, room // ROOM_OF_PERIOD), MAX_PERIOD)
    return max(0, newest // period - 1) * period + 1


def plan_cuts(steps: Sequence[StepOutline], room: int) -> CutPlan:
    """Replays the cuts over the outlined steps, oldest first. ``room``: tokens for steps and notes."""
    whole_room = room if steps[0].number == 1 else 0
    room = int((1 - NEWEST) * room)
    step = max(MIN_STEP, int(STEP * room))
    full = [outline.excerpt.output_tokens + outline.excerpt.result_tokens + FRAMING for outline in steps]
    aged = [min(size, step + FRAMING) for size in full]
    cuts: list[NotesCut] = []
    start = used = 0
    notes = 0.0
    changed: list[float] = []  # the tokens that each cut changes
    for at in range(len(steps)):
        used += aged[at] if cuts or not whole_room else full[at]
        if used <= (TAIL * room if cuts else whole_room):
            continue
        kept, used = at, aged[at]  # the newest step always stays
        while kept > start and used + aged[kept - 1] <= TAIL_KEPT * room:
            kept -= 1
            used += aged[kept]
        addition = max(KEPT_OF_STEP * sum(aged[start:kept]), MIN_ADDITION * room)
        if not cuts or notes + addition > NOTES * room:
            addition, notes = REFILLED * NOTES * room, 0.0
            cuts = []
        notes += addition
        changed.append(used + addition)
        cuts.append(NotesCut(at, kept, int(addition)))
        start = kept
    if not cuts:
        return CutPlan(start, (), step)
    changed.append(room)  # when the replay begins later, everything is chosen again
    cost = CutCost(int(sum(changed) / len(changed)), min(1.0, len(changed) / len(steps)))
    return CutPlan(start, tuple(cuts), step, cost)
