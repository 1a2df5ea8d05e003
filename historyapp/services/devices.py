"""Browsers in which somebody has signed in before. Their passwords are checked by a thread of their own.

Otherwise anybody could keep the thread for passwords busy with wrong ones. See OWASP, "Slow Down Online
Guessing Attacks with Device Cookies".
"""

import secrets
from datetime import timedelta

from django.core import signing
from django.http import HttpResponse
from django.http.cookie import parse_cookie

COOKIE = "playhead_device"
LIFETIME = timedelta(days=180)
_SALT = "historyapp.device"


def remember_device(response: HttpResponse, *, is_secure: bool) -> None:
    """Adds the cookie of a known device to the response of a sign-in.

    Args:
        is_secure: whether the request came over HTTPS.
    """
    response.set_cookie(
        COOKIE,
        signing.dumps(secrets.token_hex(8), salt=_SALT),
        max_age=LIFETIME,
        secure=is_secure,
        httponly=True,
        samesite="Lax",
    )


def is_known_device(cookies: bytes) -> bool:
    """Whether a header ``Cookie`` contains a valid cookie of :func:`remember_device`."""
    value = parse_cookie(cookies.decode("latin-1")).get(COOKIE, "")
    try:
        signing.loads(value, salt=_SALT, max_age=LIFETIME)
    except signing.BadSignature:
        return False
    return True
