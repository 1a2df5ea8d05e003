"""Browsers in which somebody has signed in before. Their passwords are checked by a thread of their own.

Otherwise anybody could keep the thread for passwords busy with wrong ones. A cookie is for one account, and
failed attempts with it count for the cookie. So neither wrong passwords from the same address nor the owner
of another account keep a person out. See OWASP, "Slow Down Online Guessing Attacks with Device Cookies".
"""

import re
import secrets
from datetime import timedelta
from functools import cache
from typing import NamedTuple

from django.core import signing
from django.http import HttpResponse

from historyapp.services.keys import hash_secret

COOKIE = "playhead_device"
LIFETIME = timedelta(days=180)
_SALT = "historyapp.device"


class Device(NamedTuple):
    """A browser in which somebody has signed in."""

    id: str
    account: str
    """The hash of the name of the account; see :func:`account_of`."""


def account_of(name: str) -> str:
    """A hash of an account's name. A name in a request may have any length."""
    return hash_secret(name.casefold())


def remember_device(response: HttpResponse, name: str, *, is_secure: bool) -> None:
    """Adds the cookie of a known device to the response of a sign-in.

    Args:
        name: the name of the account.
        is_secure: whether the request came over HTTPS.
    """
    response.set_cookie(
        COOKIE,
        signing.dumps([secrets.token_hex(8), account_of(name)], salt=_SALT),
        max_age=LIFETIME,
        secure=is_secure,
        httponly=True,
        samesite="Lax",
    )


def known_device(cookies: bytes) -> Device | None:
    """The device in a header ``Cookie``. None without a valid cookie of :func:`remember_device`."""
    return device_of(cookie_value(cookies, COOKIE))


def cookie_value(cookies: bytes, name: str) -> str:
    """The value of one cookie in a header ``Cookie``, or an empty string.

    The event loop needs it for each request. Django's parser takes 20 ms for 60 KB of semicolons.
    """
    values = _cookie_pattern(name).findall(cookies.decode("latin-1"))
    return values[-1].strip(' \t"') if values else ""  # Django too takes the last one


@cache
def _cookie_pattern(cookie_name: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|;)[ \t]*{re.escape(cookie_name)}[ \t]*=([^;]*)")


def device_of(cookie: str) -> Device | None:
    """The device of a cookie of :func:`remember_device`. None if the cookie is not valid.

    Cookies from before 2026-11-28 have no account. They are not valid any more.
    """
    try:
        value = signing.loads(cookie, salt=_SALT, max_age=LIFETIME)
    except signing.BadSignature:
        return None
    return Device(*value) if isinstance(value, list) and len(value) == 2 else None
