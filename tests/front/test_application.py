"""Which threads serve which request."""

import pytest

from historyapp.front.application import pool_name


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
        ("GET", "/api/v1/sessions/x/export", "transfers"),
        ("GET", "/sessions/x/exports/atif", "transfers"),
        ("POST", "/api/v1/imports", "transfers"),
        ("POST", "/imports", "transfers"),
        ("GET", "/imports", "reads"),
        ("POST", "/sign-in", "passwords"),
        ("POST", "/admin/login/", "passwords"),
        ("GET", "/sign-in", "reads"),
    ],
)
def test_what_takes_long_has_threads_of_its_own(method: str, path: str, pool: str) -> None:
    assert pool_name(method, path) == pool
