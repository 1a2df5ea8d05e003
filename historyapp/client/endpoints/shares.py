"""Share links: read-only links to a session for people without an account."""

from datetime import datetime

from historyapp.client.api_call import ApiCall, Id, Pages, pages, path_of, post
from historyapp.wire.shares import NewShareOut, ShareOut, SharePage


def share(
    session_id: Id,
    *,
    as_of: int | None = None,
    takes: bool = False,
    inputs: bool = False,
    expires_at: datetime | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[NewShareOut]:
    """Creates a link. Anyone who has its ``url`` can open it until it expires or is revoked.

    Args:
        as_of: the position to show; None: the whole session, including later entries.
        takes: show steps that rewinds cut off.
        inputs: show text that people wrote, and system instructions.
        expires_at: at most 365 days from now; None: in 30 days.
    """
    fields = {"as_of": as_of, "takes": takes, "inputs": inputs, "expires_at": expires_at}
    return post(path_of("sessions", session_id, "shares"), NewShareOut, fields, key=idempotency_key)


def shares(session_id: Id, *, limit: int | None = None) -> Pages[ShareOut]:
    """The links to a session, newest first."""
    return pages(path_of("sessions", session_id, "shares"), SharePage, limit=limit)


def revoke_share(session_id: Id, share_id: Id) -> ApiCall[None]:
    """Revokes a link, which stops working immediately. Needs the scope ``admin``."""
    return ApiCall("DELETE", path_of("sessions", session_id, "shares", share_id), lambda _: None)
