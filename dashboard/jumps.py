"""Jumps: addresses that lead from a step to the next or the previous one of a kind."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dashboard.location import Location
from historyapp.core.errors import Invalid
from historyapp.models import landmarks
from historyapp.models.history import History
from historyapp.models.landmarks import Landmark
from historyapp.models.relatives import MAX_RELATIVES


class JumpTarget(NamedTuple):
    """The target of a jump."""

    name: str
    step: int | None
    """None if there is no such step."""
    searched_to: int | None
    """The step at which the search stopped early; the next search continues there."""
    reason: str
    """Why there is no target; empty if there is one."""


class _Kind(NamedTuple):
    search: Callable[[History, int, bool], Landmark]
    words: str
    """The words after "There is no later"."""


_ERROR = _Kind(landmarks.error, "step that ended in an error")
"""Used while the list shows only reported errors."""
_KINDS: Mapping[str, _Kind] = {
    "error": _Kind(landmarks.failure, "step that failed or likely failed"),
    "turn": _Kind(landmarks.turn, "input from a person"),
    "interruption": _Kind(landmarks.interruption, "interruption by the person"),
    "edit": _Kind(landmarks.edit, "edit of the same file"),
    "compaction": _Kind(landmarks.compaction, "compaction by the agent"),
    "take": _Kind(landmarks.take, "take"),
}
JUMPS = tuple(f"{direction}-{kind}" for kind in _KINDS for direction in ("next", "previous"))
"""The names of jumps in addresses that start at a step. Each has a key."""
FIRST_ERROR = "first-error"
"""The jump to the first step that failed or likely failed."""
NAMES = (*JUMPS, FIRST_ERROR)


def find_jump(location: Location, name: str) -> JumpTarget:
    """The jump from a location's step.

    Raises:
        Invalid: when no jump has this name.
    """
    if name not in NAMES:
        raise Invalid(f"`to` must be one of {', '.join(NAMES)}.")
    direction, _, kind = name.partition("-")
    jump_kind = _ERROR if kind == "error" and location.only_errors else _KINDS[kind]
    is_forward, (search, words) = direction != "previous", jump_kind
    start = 0 if name == FIRST_ERROR else location.step
    if not location.steps:
        return JumpTarget(name, None, None, "The session has no steps yet.")
    landmark = search(location.history, start, is_forward)
    if landmark.step is not None:
        return JumpTarget(name, landmark.step, None, "")
    order = "" if name == FIRST_ERROR else "later " if is_forward else "earlier "
    if kind == "edit" and not landmarks.edited_file(location.history, location.step):
        return JumpTarget(name, None, None, f"Step {location.step:,} edits no file.")
    if landmark.searched_to is not None:
        reason = f"No {order}{words} up to step {landmark.searched_to:,}."
        return JumpTarget(name, None, landmark.searched_to, reason)
    if location.is_counting and jump_kind is _KINDS["error"]:
        reason = f"No {order}{words} is known yet: a worker is still looking."
        return JumpTarget(name, None, None, reason)
    reason = f"There is no {order}{words}."
    if kind == "error" and (failed := location.relatives.failed_subagents):
        known = len(location.relatives.subagents)
        newest = "the newest " if known == MAX_RELATIVES else ""
        reason += f" {len(failed)} of {newest}{known} sub-agents had failures: see Sub-agents."
    return JumpTarget(name, None, None, reason)
