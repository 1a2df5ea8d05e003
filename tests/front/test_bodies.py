"""How large a body may be depends on what its address makes of it."""

import pytest

from historyapp.front.bodies import MOST_FORM, most_bytes
from tests.front.limits import small_limits

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
    assert most_bytes(path, media_type, small_limits(max_body=MOST)) == most
