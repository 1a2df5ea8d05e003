"""Which threads serve which request, and how Python is set up for it."""

import gc
import sys
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.core import signing
from django.http import HttpResponse

from historyapp.front.interpreter import tune_interpreter
from historyapp.front.pool_names import LARGE_REQUESTS, can_move, pool_name
from historyapp.services.devices import COOKIE, LIFETIME, account_of, known_device, remember_device


@pytest.mark.parametrize(
    ("method", "path", "pool"),
    [
        ("GET", "/api/v1/sessions", "reads"),
        ("HEAD", "/", "reads"),
        ("POST", "/api/v1/sessions/x/actions", "writes"),
        ("PATCH", "/api/v1/sessions/x", "writes"),
        ("POST", "/sign-in/token", "writes"),
        ("GET", "/sessions/x/steps/3/calls", "reads"),
        ("POST", "/api/v1/sessions/x/calls", "calls"),
        ("POST", "/api/v1/sessions/x/contexts", "reads"),
        ("GET", "/api/v1/sessions/x/export", "transfers"),
        ("GET", "/sessions/x/exports/atif", "transfers"),
        ("POST", "/api/v1/imports", "transfers"),
        ("POST", "/imports", "transfers"),
        ("POST", "/exports", "transfers"),
        ("POST", "/api/v1/exports", "transfers"),
        ("POST", "/bulk", "reads"),
        ("POST", "/api/v1/bulk-actions", "reads"),
        ("POST", "/api/v1/bulk-actions/estimate", "reads"),
        ("GET", "/imports", "reads"),
        ("POST", "/sign-in", "passwords"),
        ("POST", "/admin/login/", "passwords"),
        ("GET", "/sign-in", "reads"),
        ("GET", "/readyz", "checks"),
    ],
)
def test_long_requests_have_separate_threads(method: str, path: str, pool: str) -> None:
    assert pool_name(method, path) == pool


@pytest.mark.parametrize(
    ("method", "path", "pool"),
    [
        ("POST", "/api/v1/sessions/x/entries", LARGE_REQUESTS),
        ("POST", "/api/v1/sessions/x/contexts", LARGE_REQUESTS),
        ("PATCH", "/api/v1/sessions/x", LARGE_REQUESTS),
        ("POST", "/api/v1/sessions/x/calls", "calls"),
        ("POST", "/api/v1/imports", "transfers"),
    ],
)
def test_a_long_body_makes_a_short_request_large(method: str, path: str, pool: str) -> None:
    limit = settings.PLAYHEAD_LARGE_REQUEST
    assert pool_name(method, path, length=limit + 1) == pool
    assert pool_name(method, path, length=limit) != LARGE_REQUESTS


def test_streams_of_events_stay_in_the_web_process() -> None:
    assert not can_move({"PATH_INFO": "/api/v1/events"})
    assert not can_move({"PATH_INFO": "/api/v1/sessions/x/stream"})
    assert can_move({"PATH_INFO": "/api/v1/sessions/x/entries"})


def test_a_browser_in_which_somebody_has_signed_in_has_its_own_thread_for_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise anybody could keep the thread for passwords busy with wrong ones."""
    response = HttpResponse()
    remember_device(response, "Alice", is_secure=True)
    cookie = response.cookies[COOKIE]
    header = f"other=1; {COOKIE}={cookie.value}".encode()
    assert (cookie["httponly"], cookie["secure"], cookie["samesite"]) == (True, True, "Lax")
    assert pool_name("POST", "/sign-in", header) == "passwords of known devices"
    device = known_device(header)
    assert device is not None
    assert device.account == account_of("ALICE") != account_of("bob")
    old = signing.dumps("0123456789abcdef", salt="historyapp.device")
    assert known_device(f"{COOKIE}={old}".encode()) is None
    for wrong in (b"", header[:-1], f"{COOKIE}=x".encode(), f"{COOKIE}=".encode() + b"\xff" * 9000):
        assert pool_name("POST", "/sign-in", wrong) == "passwords"
    later = time.time() + (LIFETIME + timedelta(seconds=2)).total_seconds()
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    assert pool_name("POST", "/sign-in", header) == "passwords"


def test_imported_modules_are_not_garbage_collected() -> None:
    thresholds, seconds = gc.get_threshold(), sys.getswitchinterval()
    imported = [[number] for number in range(20_000)]
    assert len(gc.get_objects()) > len(imported)
    try:
        tune_interpreter()
        assert len(gc.get_objects()) < 1000
        assert 700 < gc.get_threshold()[0] < 10_000
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(seconds)
