"""The project that the API key belongs to."""

from collections.abc import Mapping
from typing import Any

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, get, pages
from historyapp.wire.caps import CapOut, CapPage
from historyapp.wire.projects import ProjectOut


def project() -> ApiCall[ProjectOut]:
    """The project, its settings, and its spending caps with the amounts spent."""
    return get("/project", ProjectOut)


def change_project(changes: Mapping[str, Any]) -> ApiCall[ProjectOut]:
    """Changes the given fields.

    Args:
        changes: any of ``paid_automatic_compression``, ``allowed_models``, ``summary_instruction``, and
            ``daily_cap`` and ``monthly_cap`` in US dollars; null removes a cap, the list or the instruction.

    Raises:
        Forbidden: when the key lacks the scope ``admin``, or ``spend`` for a change that concerns money.
    """
    return ApiCall("PATCH", "/project", ProjectOut.model_validate, body=dict(changes))


def caps(*, session: Id | None = None, key: str | None = None, limit: int | None = None) -> Pages[CapOut]:
    """The spending caps of the project, its sessions and its API keys, with the amount that each leaves.

    Args:
        session: only the caps of this session.
        key: only the caps of the API key that begins with this text.
        limit: the number of caps of each request.
    """
    return pages("/caps", CapPage, session=session, key=key, limit=limit)


def set_caps(
    limits: Mapping[str, float | None], *, session: Id | None = None, key: str | None = None
) -> ApiCall[CapPage]:
    """Sets spending caps of the project, or of one session or API key.

    Args:
        limits: ``daily_cap`` and ``monthly_cap`` in US dollars, or one of them; null removes a cap.

    Raises:
        Forbidden: when the key lacks the scope ``admin`` or ``spend``.
        NotFound: when the project has no such session or key.
    """
    body = {**drop_nulls({"session": session, "key": key}), **limits}
    return ApiCall("PATCH", "/caps", CapPage.model_validate, body=body)
