"""Creates, opens and revokes share links.

A token is the id of a share and its signature. Nobody can create one without ``SECRET_KEY``, and a changed
token is refused without a database query.
"""

import base64
import binascii
import hashlib
import hmac
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F
from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import Project, ShareLink
from historyapp.models.sessions import columns_except
from historyapp.models.shares import MAX_DAYS, MAX_SHARES
from historyapp.services.append import lock_session
from historyapp.services.audit import add_audit_record
from historyapp.services.keys import notify_of_credential
from historyapp.services.transactions import writing
from historyapp.wire.problems import ServerUnavailable

DEFAULT_DAYS = 30
INVALID_LINK = "This link is not valid, has expired or was revoked. Ask the person who sent it for a new one."
"""One message for all cases, so that strangers cannot find out which links exist."""
_ID_BYTES, _SIGNATURE_BYTES = 16, 32

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """What a link shows, and when it expires."""

    as_of: int | None = None
    """The position up to which it shows the session; None: the whole session, including later entries."""
    with_takes: bool = False
    with_inputs: bool = False
    expires_at: datetime | None = None
    """None: after ``DEFAULT_DAYS``."""


def create_share(project: Project, session_id: UUID, options: ShareOptions, *, actor: str = "") -> ShareLink:
    """Creates a link to a session. :func:`share_token` returns its token.

    Raises:
        NotFound: when the project has no such session.
        Invalid: for a position beyond the head, and for an expiry in the past or more than a year away.
        Conflict: when the session has too many usable links.
    """
    now = timezone.now()
    expires_at = options.expires_at or now + timedelta(days=DEFAULT_DAYS)
    if not now < expires_at <= now + timedelta(days=MAX_DAYS, minutes=1):
        raise Invalid(f"A link must expire in the next {MAX_DAYS} days.")
    with writing():
        session = lock_session(project, session_id)
        session.lineage(options.as_of)  # refuses a position beyond the head
        if ShareLink.objects.filter(session=session).usable(now).count() >= MAX_SHARES:
            raise Conflict(f"A session has at most {MAX_SHARES} links. Revoke one that is no longer needed.")
        share = ShareLink.objects.create(
            session=session,
            as_of=options.as_of,
            with_takes=options.with_takes,
            with_inputs=options.with_inputs,
            actor=actor,
            created_at=now,
            expires_at=expires_at,
        )
        add_audit_record(project.pk, actor, "share", session.pk, {"share": str(share.pk)})
        return share


def revoke_share(
    project: Project, share_id: UUID, *, session_id: UUID | None = None, actor: str = ""
) -> ShareLink:
    """Revokes a link. It stops working at once; revoking it again changes nothing.

    Args:
        session_id: the session that the link must belong to; None: any session of the project.

    Raises:
        NotFound: when the project, or the session, has no such link.
    """
    with writing():
        links = ShareLink.objects.select_for_update(of=("self",)).select_related("session")
        links = links.filter(pk=share_id, session__project=project)
        share = (links if session_id is None else links.filter(session=session_id)).first()
        if share is None:
            raise NotFound(f"There is no link {share_id} in this session.")
        if share.revoked_at is None:
            share.revoked_at = timezone.now()
            share.save(update_fields=["revoked_at"])
            add_audit_record(project.pk, actor, "revoke share", share.session_id, {"share": str(share.pk)})
        return share


def share_token(share_id: UUID) -> str:
    """The token of a link: 64 characters that are safe in a URL."""
    return base64.urlsafe_b64encode(share_id.bytes + _sign(share_id)).decode()


def share_path(share_id: UUID) -> str:
    """The path of a link."""
    return f"/s/{share_token(share_id)}/"


def find_share(token: str) -> ShareLink:
    """The usable link with this token. Of its session only the project is loaded.

    Raises:
        NotFound: when there is no such link, or it has expired or was revoked. The error does not say which.
    """
    share_id = _signed_id(token)
    if share_id is not None:
        links = ShareLink.objects.usable(timezone.now()).filter(pk=share_id).select_related("session")
        if share := next(iter(links.defer(*columns_except({"project"}, "session"))[:1]), None):
            notify_of_credential(share.session.project_id.bytes)
            return share
    raise NotFound(INVALID_LINK)


def count_opening(share: ShareLink) -> None:
    """Counts an opening of a link's page, and adds an audit record for the first one. Waits only 0.1 seconds
    for other writers."""
    try:
        with writing(max_wait=0.1):
            opened = {"last_opened_at": timezone.now(), "opened": F("opened") + 1}
            ShareLink.objects.filter(pk=share.pk).update(**opened)
            if not share.opened:
                session, detail = share.session, {"share": str(share.pk)}
                add_audit_record(session.project_id, "share link", "open share", session.pk, detail)
    except (DatabaseError, ServerUnavailable):
        # The count is not important enough to fail the request.
        log.warning("The opening of a link could not be counted", exc_info=True)


def _sign(share_id: UUID) -> bytes:
    return hmac.digest(settings.SECRET_KEY.encode(), b"share " + share_id.bytes, "sha256")


def _signed_id(token: str) -> UUID | None:
    """The id in a token, or None if the signature is not valid."""
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _ID_BYTES + _SIGNATURE_BYTES:
        raw = hashlib.sha384(raw).digest()  # has the right length, and the comparison below refuses it
    share_id = UUID(bytes=raw[:_ID_BYTES])
    return share_id if hmac.compare_digest(raw[_ID_BYTES:], _sign(share_id)) else None
