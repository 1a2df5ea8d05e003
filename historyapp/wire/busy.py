"""The error when a project, or the server, has reached its limit of concurrent work."""

from historyapp.wire.problems import ServerUnavailable, TooManyRequests


def busy_error(detail: str, *, is_own: bool, retry_after: int) -> ServerUnavailable:
    """The error of a request for which there is no room now.

    Args:
        detail: ``{whose}`` in it stands for "project" or "server".
        is_own: whether the project itself uses as much as it may. Otherwise all projects together do.
    """
    error, whose = (TooManyRequests, "project") if is_own else (ServerUnavailable, "server")
    return error(detail.format(whose=whose), retry_after=retry_after)
