"""Signing in by a link that works once, by a password, and signing out."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.templatetags.static import static
from django.test import Client
from limits.storage import MemoryStorage
from pytest_django import Settings

from dashboard.forms.password import PER_NAME, reset_failures, shared_limiter
from historyapp.services.devices import COOKIE, known_device
from historyapp.services.keys import create_sign_in_link
from tests.dashboard.pages import html, text


@pytest.fixture(autouse=True)
def _no_attempt_has_failed() -> None:
    reset_failures()


@pytest.fixture
def alice_user(db: None) -> User:
    return User.objects.create_user("alice", password="correct horse battery")


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_opening_a_link_asks_for_confirmation_and_does_not_use_it_up(
    client: Client, alice_user: User
) -> None:
    path = f"/sign-in/{create_sign_in_link(alice_user)}"
    for _ in range(3):
        assert client.get(path).status_code == 200
    assert not is_signed_in(client)
    assert client.post(path)["Location"] == "/"
    assert is_signed_in(client)


def test_a_link_works_once(client: Client, alice_user: User) -> None:
    path = f"/sign-in/{create_sign_in_link(alice_user)}"
    Client().post(path)
    for response in (client.get(path), client.post(path)):
        assert response.status_code == 404
        assert "has been used or has expired" in text(response)
        assert "To get a new sign-in link" in text(response)
        assert "playhead sign-in" in text(response)
        assert 'name="password"' in html(response)
    assert not is_signed_in(client)


def test_a_used_link_leads_a_signed_in_person_to_the_sessions(client: Client, alice_user: User) -> None:
    path = f"/sign-in/{create_sign_in_link(alice_user)}"
    client.post(path)
    again = client.get(path)
    assert "You are already signed in. Show the sessions" in text(again)
    assert '<a class="button primary" href="/">' in html(again)
    assert 'name="password"' not in html(again)


@pytest.mark.django_db(transaction=True)
def test_only_one_of_16_threads_with_one_link_is_signed_in() -> None:
    path = f"/sign-in/{create_sign_in_link(User.objects.create_user('alice'))}"
    assert Counter(run_concurrently([lambda: Client().post(path)] * 16)) == {302: 1, 404: 15}


@pytest.mark.django_db(transaction=True)
def test_16_threads_can_sign_in_with_passwords_concurrently() -> None:
    User.objects.create_user("alice", password="correct horse battery")
    right = {"username": "alice", "password": "correct horse battery"}
    calls = [lambda form=form: Client().post("/sign-in", form) for form in (right, right | {"password": "x"})]
    assert Counter(run_concurrently(calls * 8)) == {302: 8, 422: 8}


def run_concurrently(calls: Sequence[Callable[[], Any]]) -> list[int]:
    """The statuses of requests that start at the same time, each in its own thread."""
    start = Barrier(len(calls))

    def carry_out(call: Callable[[], Any]) -> int:
        start.wait()
        try:
            return int(call().status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(carry_out, calls))


def attempt(name: str, password: str, address: str = "10.0.0.1") -> Any:
    return Client(REMOTE_ADDR=address).post("/sign-in", {"username": name, "password": password})


def test_after_many_failures_no_password_of_that_name_is_checked(alice_user: User) -> None:
    for _ in range(PER_NAME):
        assert attempt("alice", "wrong").status_code == 422
    refused = attempt("Alice", "correct horse battery")
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 300
    assert "Try again in 5 minutes, or use a sign-in link." in text(refused)
    assert attempt("alice", "correct horse battery", "10.0.0.2").status_code == 302
    assert attempt("bob", "wrong").status_code == 422


def test_one_address_cannot_try_many_names(alice_user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.forms.password.PER_ADDRESS", 3)
    assert [attempt(f"person {n}", "wrong").status_code for n in range(4)] == [422, 422, 422, 429]
    assert attempt("alice", "correct horse battery").status_code == 429


def test_failures_keep_no_long_name_in_memory(db: None) -> None:
    attempt("x" * 1_000_000, "wrong")
    storage = shared_limiter().storage
    assert isinstance(storage, MemoryStorage)
    assert 0 < max(map(len, storage.storage)) < 200


@pytest.mark.parametrize("by_link", [True, False])
def test_a_sign_in_makes_the_browser_a_known_device(client: Client, alice_user: User, by_link: bool) -> None:
    if by_link:
        client.post(f"/sign-in/{create_sign_in_link(alice_user)}")
    else:
        client.post("/sign-in", {"username": "alice", "password": "correct horse battery"})
    client.post("/sign-out")
    assert known_device(f"{COOKIE}={client.cookies[COOKIE].value}".encode())


def test_wrong_passwords_of_others_at_its_address_do_not_lock_a_known_device_out(
    client: Client, alice_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy all requests come from one address."""
    monkeypatch.setattr("dashboard.forms.password.PER_ADDRESS", 12)
    right = {"username": "alice", "password": "correct horse battery"}
    client.post("/sign-in", right)
    client.post("/sign-out")
    for _ in range(PER_NAME):
        attempt("alice", "wrong", "127.0.0.1")
    for name in ("bob", "carol"):
        attempt(name, "wrong", "127.0.0.1")
    assert attempt("alice", "correct horse battery", "127.0.0.1").status_code == 429
    assert client.post("/sign-in", right).status_code == 302


def test_failures_of_a_known_device_count_for_it_and_for_its_account_only(
    client: Client, alice_user: User
) -> None:
    User.objects.create_user("bob", password="battery horse")
    client.post("/sign-in", {"username": "alice", "password": "correct horse battery"})
    client.post("/sign-out")
    for _ in range(PER_NAME):
        assert client.post("/sign-in", {"username": "alice", "password": "wrong"}).status_code == 422
    right = {"username": "alice", "password": "correct horse battery"}
    assert client.post("/sign-in", right).status_code == 429
    assert attempt("alice", "correct horse battery", "127.0.0.1").status_code == 302
    for _ in range(PER_NAME):
        assert client.post("/sign-in", {"username": "bob", "password": "wrong"}).status_code == 422
    assert attempt("bob", "battery horse", "127.0.0.1").status_code == 429


def test_a_wrong_password_makes_no_known_device(client: Client, alice_user: User) -> None:
    client.post("/sign-in", {"username": "alice", "password": "wrong"})
    assert COOKIE not in client.cookies


def test_a_right_password_is_not_counted_as_a_failure(alice_user: User) -> None:
    for _ in range(PER_NAME + 1):
        assert attempt("alice", "correct horse battery").status_code == 302


def test_without_redis_this_process_counts_failed_passwords(
    alice_user: User, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    shared_limiter.cache_clear()
    try:
        assert attempt("alice", "wrong").status_code == 422
        assert attempt("alice", "correct horse battery").status_code == 302
    finally:
        shared_limiter.cache_clear()
    assert "only this process counts this failed sign-in" in caplog.text


@pytest.mark.parametrize("token", ["nonsense", "%00", "%ff%fe", "a" * 2000])
def test_an_unknown_token_looks_like_an_expired_one(client: Client, db: None, token: str) -> None:
    response = client.post(f"/sign-in/{token}")
    assert response.status_code == 404
    assert "has been used or has expired" in text(response)


def test_the_page_says_how_to_get_a_link(client: Client, db: None) -> None:
    page = text(client.get("/sign-in"))
    assert "playhead sign-in" in page


@pytest.mark.parametrize(
    ("base", "host", "command"),
    [
        ("", "127.0.0.1:8000", "playhead sign-in"),
        ("", "127.0.0.1:9000", "playhead sign-in --address http://127.0.0.1:9000"),
        ("", "[::1]:8000", "playhead sign-in --address 'http://[::1]:8000'"),
        ("https://play.example.org", "play.example.org", "playhead sign-in"),
        ("https://play.example.org", "localhost:80", "playhead sign-in --address http://localhost:80"),
    ],
)
def test_the_suggested_command_makes_a_link_to_the_address_of_the_page(
    client: Client, db: None, settings: Settings, base: str, host: str, command: str
) -> None:
    settings.PLAYHEAD_BASE_URL = base
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "play.example.org"]
    for page in (client.get("/sign-in", headers={"host": host}), _used_up(client, host)):
        assert f'<pre class="text code" id="link-command" tabindex="0">{command}</pre>' in unescape(
            html(page)
        )


def _used_up(client: Client, host: str) -> Any:
    return client.post("/sign-in/nonsense", headers={"host": host})


def test_the_page_shows_the_full_command_if_the_program_is_not_on_the_path(client: Client) -> None:
    assert "run .venv/bin/playhead" in text(client.get("/sign-in"))


def test_a_password_signs_in_and_redirects_back(client: Client, alice_user: User) -> None:
    fields = {"username": "alice", "password": "correct horse battery", "next": "/imports"}
    assert client.post("/sign-in", fields)["Location"] == "/imports"
    assert is_signed_in(client)


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client, alice_user: User) -> None:
    response = client.post("/sign-in", {"username": "alice", "password": "wrong", "next": "/imports"})
    assert response.status_code == 422
    assert "correct username and password" in text(response)
    assert 'value="alice"' in html(response)
    assert 'name="next" value="/imports"' in html(response)
    assert not is_signed_in(client)


@pytest.mark.parametrize(
    "next", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "nowhere"]
)
def test_signing_in_never_redirects_to_another_site(client: Client, alice_user: User, next: str) -> None:
    fields = {"username": "alice", "password": "correct horse battery", "next": next}
    assert client.post("/sign-in", fields)["Location"] == "/"


def test_signing_out_needs_a_post_and_ends_the_session(client: Client, alice_user: User) -> None:
    client.force_login(alice_user)
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert not is_signed_in(client)


def test_a_form_without_its_token_is_refused_in_our_style(alice_user: User) -> None:
    response = Client(enforce_csrf_checks=True).post("/sign-in", {"username": "alice", "password": "x"})
    assert response.status_code == 403
    assert "This form has expired" in text(response)
    assert static("joined/styles.css") in html(response)
