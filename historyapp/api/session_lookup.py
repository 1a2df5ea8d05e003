"""The session that a request is about."""

from uuid import UUID

from historyapp.api.auth import ApiRequest
from historyapp.api.fields import not_found
from historyapp.models import Session


def find_session(request: ApiRequest, session_id: UUID) -> Session:
    """The project's session.

    Raises:
        NotFound: when the project has no session of this id, even if another project has.
    """
    session = Session.objects.filter(pk=session_id, project=request.auth.project).first()
    if session is None:
        raise not_found("session", session_id)
    return session
