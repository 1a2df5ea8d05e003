"""Finding the session that a request reads, and as of which position."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from historyapp.api.auth import ApiRequest
from historyapp.api.fields import QueryPosition, not_found
from historyapp.models import Session

AsOf = Annotated[
    QueryPosition | None,
    Field(description="Answer as the session stood when this position was its head."),
]


def find_session(request: ApiRequest, session_id: UUID) -> Session:
    """The project's session.

    Raises:
        NotFound: when the project has none of this id, even if another has.
    """
    session = Session.objects.filter(pk=session_id, project=request.auth.project).first()
    if session is None:
        raise not_found("session", session_id)
    return session
