"""The project that the API key belongs to."""

from historyapp.client.api_call import ApiCall, get, given
from historyapp.wire.projects import ProjectOut


def project() -> ApiCall[ProjectOut]:
    """The project and what it allows."""
    return get("/project", ProjectOut)


def change_project(*, paid_automatic_compression: bool | None = None) -> ApiCall[ProjectOut]:
    """Changes what is given.

    Raises:
        Forbidden: when the key lacks the scope ``admin``, or ``spend`` where the change costs money.
    """
    body = given({"paid_automatic_compression": paid_automatic_compression})
    return ApiCall("PATCH", "/project", ProjectOut.model_validate, body=body)
