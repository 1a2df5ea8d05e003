"""The form that asks for a name and a password, with a limit on failed attempts."""

import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm

from historyapp.network import network_of
from historyapp.redis_values import TIME_LIMITS, Result, in_time
from historyapp.services.devices import COOKIE, account_of, device_of

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import FixedWindowRateLimiter

log = logging.getLogger(__name__)

PER_NAME = 10
"""Failed attempts for one name from one address. Failures of other people do not lock a person out."""
PER_ADDRESS = 50
"""Failed attempts from one address, which may be a proxy for many people."""
SECONDS = 300
"""The time span in which failures are counted together."""


class PasswordForm(AuthenticationForm):
    """Checks no password after too many failures: each check takes a third of a second."""

    retry_after = 0
    """Seconds until another attempt is possible, if this one was refused without a check."""

    def clean(self) -> dict[str, Any]:
        assert self.request
        limits = self._limits(account_of(str(self.cleaned_data.get("username", ""))))
        self.retry_after = max(_seconds_left(*limit) for limit in limits)
        if self.retry_after:
            minutes = math.ceil(self.retry_after / 60)
            raise forms.ValidationError(
                f"Too many attempts failed. Try again in {minutes} minute{'s' if minutes > 1 else ''}, "
                "or use a sign-in link.",
                code="too_many_attempts",
            )
        try:
            return super().clean()
        except forms.ValidationError:
            for limit in limits:
                _count_failure(*limit)
            raise

    def _limits(self, account: str) -> list[tuple[int, list[str]]]:
        """The limits of this attempt: each has the highest number of failures and what they are counted for.

        Attempts from a browser in which somebody has signed in to the account count for the browser, so
        others who try passwords at the same address, such as a proxy, do not lock it out.
        """
        assert self.request
        device = device_of(self.request.COOKIES.get(COOKIE, ""))
        if device is not None and device.account == account:
            return [(PER_NAME, ["device", device.id])]
        address = network_of(self.request.META.get("REMOTE_ADDR", ""))
        return [(PER_NAME, [address, account]), (PER_ADDRESS, [address])]


def reset_failures() -> None:
    """Resets all counts to 0."""
    for limiter in (shared_limiter(), _own_limiter()):
        limiter.storage.reset()


def _seconds_left(limit: int, key: Sequence[str]) -> int:
    """How long attempts are refused; 0 if an attempt is possible."""
    from limits import RateLimitItemPerSecond
    from limits.errors import StorageError

    item = RateLimitItemPerSecond(limit, SECONDS, namespace="sign-in")
    seconds = 0
    for limiter in (_own_limiter(), shared_limiter()):
        try:
            reset_time = _ask(limiter, partial(_reset_time, limiter, item, key))
            if reset_time is not None:
                seconds = max(seconds, 1, math.ceil(reset_time - time.time()))
        except (StorageError, TimeoutError) as error:
            log.warning("Redis cannot be used; only this process counts failed sign-ins: %s", error)
    return seconds


def _ask(limiter: "FixedWindowRateLimiter", question: Callable[[], Result]) -> Result:
    """The answer of a limiter. One in Redis has a time limit."""
    return question() if limiter is _own_limiter() else in_time(question)


def _reset_time(limiter: "FixedWindowRateLimiter", item: "RateLimitItem", key: Sequence[str]) -> float | None:
    """When attempts are possible again, in seconds since 1970; None if they are now."""
    return None if limiter.test(item, *key) else limiter.get_window_stats(item, *key).reset_time


def _count_failure(limit: int, key: Sequence[str]) -> None:
    from limits import RateLimitItemPerSecond
    from limits.errors import StorageError

    item = RateLimitItemPerSecond(limit, SECONDS, namespace="sign-in")
    try:
        _ask(shared_limiter(), partial(shared_limiter().hit, item, *key))
    except (StorageError, TimeoutError) as error:
        log.warning("Redis cannot be used; only this process counts this failed sign-in: %s", error)
        _own_limiter().hit(item, *key)


@functools.cache
def shared_limiter() -> "FixedWindowRateLimiter":
    """In Redis, it counts for all web processes together. The package is imported late: that takes time."""
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter

    if not settings.REDIS_URL:
        return _own_limiter()
    return FixedWindowRateLimiter(
        storage_from_string(settings.REDIS_URL, wrap_exceptions=True, **TIME_LIMITS)
    )


@functools.cache
def _own_limiter() -> "FixedWindowRateLimiter":
    """Counts in this process. Used if Redis is full or does not answer: otherwise any number of passwords
    could be tried."""
    from limits.storage import storage_from_string
    from limits.strategies import FixedWindowRateLimiter

    return FixedWindowRateLimiter(storage_from_string("memory://"))
