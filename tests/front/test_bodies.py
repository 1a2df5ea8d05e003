"""How large a body may be depends on what its address makes of it."""

import pytest

from historyapp.front.bodies import MOST_FORM, most_bytes
from historyapp.front.limits import Limits

MOST = 32 << 20
FORM, PARTS = b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x"
JSON = b"application/json"


@pytest.mark.parametrize(
    ("path", "media_type", "most"),
    [
        ("/api/v1/sessions", JSON, MOST),
        ("/api/v1/imports", PARTS, MOST),
        ("/imports", PARTS, MOST),
        ("/imports", FORM, MOST_FORM),
        ("/api/v1/sessions", FORM.upper() + b"; charset=utf-8", MOST_FORM),
        ("/sign-in", FORM, MOST_FORM),
        ("/sign-in", PARTS, MOST_FORM),
        ("/sign-in", b"", MOST_FORM),
    ],
)
def test_forms_are_short_and_what_agents_send_may_be_long(path: str, media_type: bytes, most: int) -> None:
    limits = Limits(
        max_body=MOST,
        body_seconds=1,
        stall_seconds=1,
        min_rate=1,
        queue_seconds=1,
        client_requests=1,
        client_calls=1,
        client_bytes=1,
        client_connections=1,
        spare_disk=0,
    )
    assert most_bytes(path, media_type, limits) == most
