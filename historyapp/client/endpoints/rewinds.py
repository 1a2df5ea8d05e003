"""Rewinds and the takes that they cut off, and undoing a rewind."""

from historyapp.client.api_call import ApiCall, Id, Pages, pages, path_of, post
from historyapp.wire.rewinds import RewindOut, RewindPage, TakeOut


def rewind(
    session_id: Id,
    *,
    episodes: int | None = None,
    to_step: int | None = None,
    to_position: int | None = None,
    reason: str | None = None,
    expected_position: int | None = None,
) -> ApiCall[RewindOut]:
    """Rewinds. The part that is cut off stays as a take. Without a target, drops only the step in flight.

    Args:
        episodes: drop the step in flight, then this many finished steps.
        to_step: continue after this step; 0: before step 1.
        to_position: continue after this position, which may be in a take.
    """
    body = {
        "episodes": episodes,
        "to_step": to_step,
        "to_position": to_position,
        "reason": reason,
        "expected_position": expected_position,
    }
    return post(path_of("sessions", session_id, "rewinds"), RewindOut, body)


def undo_rewind(session_id: Id, position: int) -> ApiCall[RewindOut]:
    """Restores the history as it was before the rewind at this position."""
    return post(path_of("sessions", session_id, "rewinds", position, "undo"), RewindOut, {})


def rewinds(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[TakeOut]:
    """Rewinds, newest first, each with the take that it cut off."""
    return pages(path_of("sessions", session_id, "rewinds"), RewindPage, limit=limit, as_of=as_of)
