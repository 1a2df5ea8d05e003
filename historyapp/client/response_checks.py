"""Checks whether a response is Playhead's. At a wrong address, another server often responds."""

import json
import re

import httpx

from historyapp.client.errors import NotPlayhead, error_of
from historyapp.client.retrying import is_outage, retry_after
from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import MEDIA_TYPE, ServerUnavailable, TooLarge

_TITLE = re.compile(r"<title[^<>]{0,100}>([^<]{1,100})", re.IGNORECASE)
_MAX_TEXT = 100
_MAX_SEARCHED = 4000
"""Characters of another server's page that are searched for its title."""


def error_for(response: httpx.Response, server: str) -> PlayheadError:
    """The error for an unsuccessful response."""
    try:
        problem = json.loads(response.content)
    except (ValueError, RecursionError):
        problem = None
    wait = retry_after(response)
    fields = {"status": response.status_code} | ({"retry_after": wait} if wait is not None else {})
    if _media_type(response) == MEDIA_TYPE and isinstance(problem, dict):
        return error_of({**problem, **fields})
    cause = _description(response)
    if is_outage(response):
        detail = (
            f"{cause}. A proxy responded, but Playhead behind it did not. Check that Playhead runs there."
        )
        return ServerUnavailable(detail, **fields)
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return ServerUnavailable(f"{cause}. A proxy in front of Playhead limits requests.", **fields)
    if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        detail = (
            f"{cause}. A proxy in front of Playhead does not accept a body of this size; raise its limit."
        )
        return TooLarge(detail, **fields)
    return NotPlayhead(f"{cause}. {_advice(response, server)}", **fields)


def check_success(response: httpx.Response, server: str, *, streamed: bool) -> None:
    """Checks the media type of a successful response.

    Raises:
        NotPlayhead: when Playhead never sends this type.
    """
    media_type = _media_type(response)
    if response.status_code == httpx.codes.NO_CONTENT or (media_type != "text/html" and streamed):
        return
    if media_type != "application/json":
        raise not_playhead(response, server)


def not_playhead(response: httpx.Response, server: str, reason: str = "") -> NotPlayhead:
    """The error for a successful response that is not Playhead's."""
    cause = f"{_description(response)}{f', and {reason}' if reason else ''}"
    return NotPlayhead(f"{cause}. {_advice(response, server)}", status=response.status_code)


def _advice(response: httpx.Response, server: str) -> str:
    if response.is_redirect:
        return (
            "This client does not follow redirects. Give it Playhead's own address, with the right scheme "
            "(http or https), and check that no proxy asks for a sign-in there."
        )
    return (
        f"This is not Playhead. Check the address {server}: Playhead prints it when it starts "
        '("Playhead ready at …"). A proxy in front of it must pass /api/v1 on unchanged.'
    )


def _description(response: httpx.Response) -> str:
    """The address, status, media type and beginning of a response."""
    address = response.url.copy_with(userinfo=b"", query=None)
    if response.is_redirect:
        target = response.headers.get("Location", "").partition("?")[0]
        return f"{address} returned {response.status_code}, a redirect to {target[:_MAX_TEXT]!r}"
    media_type = _media_type(response) or "no content type"
    text = response.text[:_MAX_SEARCHED] if response.is_closed else ""
    title = _TITLE.search(text)
    excerpt = " ".join((title[1] if title else text).split())[:_MAX_TEXT]
    return f"{address} returned {response.status_code} with {media_type}{f', {excerpt!r}' if excerpt else ''}"


def _media_type(response: httpx.Response) -> str:
    media_type: str = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return media_type
