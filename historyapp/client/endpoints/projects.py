"""The project that the API key belongs to."""

from collections.abc import Mapping
from typing import Any

from historyapp.client.api_call import ApiCall, get
from historyapp.wire.projects import ProjectOut


def project() -> ApiCall[ProjectOut]:
    """The project, what it allows and what it has spent."""
    return get("/project", ProjectOut)


def change_project(changes: Mapping[str, Any]) -> ApiCall[ProjectOut]:
    """Changes what is given.

    Args:
        changes: any of ``paid_automatic_compression``, and ``daily_cap`` and ``monthly_cap`` in US dollars;
            null removes a cap.

    Raises:
        Forbidden: when the key lacks the scope ``admin``, or ``spend`` where the change concerns money.
    """
    return ApiCall("PATCH", "/project", ProjectOut.model_validate, body=dict(changes))
