"""From when on a compression of a session may be due.

The session row carries the marks: so many steps, or tokens. An append only compares; workers look for what is
due, decide, and set the marks anew.
"""

from historyapp.core.settings import SessionSettings, load_settings
from historyapp.models import Session
from historyapp.models.history import History

MARKS = ("compressed_to", "compress_at", "compress_at_tokens", "compression_due")
"""The columns."""


def arm(session: Session) -> None:
    """Sets the marks by the session's settings and what has been compressed; the caller saves ``MARKS``."""
    settings = load_settings(session.settings)
    session.compressed_to = min(session.compressed_to, session.steps)
    session.compression_due = False
    session.compress_at = session.compress_at_tokens = None
    if not settings.compress_automatically:
        return
    session.compress_at = session.compressed_to + settings.detailed_steps + settings.compression_batch_size
    wanted = wanted_tokens(settings, session.model)
    if wanted is not None:
        session.compress_at_tokens = tokens_to(session, session.compressed_to) + wanted


def wanted_tokens(settings: SessionSettings, model: str) -> int | None:
    """How many tokens outside the newest steps start a compression; None: their number does not matter."""
    budget = settings.budget(model)
    if settings.compression_share is None or budget is None:
        return None
    return max(1, round(settings.compression_share * budget))


def tokens_to(session: Session, step: int) -> int:
    """Of the live history up to the end of a step; 0 for step 0."""
    return History(session).row(step).total_tokens if step else 0
