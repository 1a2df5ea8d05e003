"""``playhead sign-in``: a link that works once."""

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from historyapp.core.errors import NotFound
from historyapp.running_servers import announced
from historyapp.services.keys import use_sign_in_link
from tests.commands.conftest import Run


def token_of(link: str) -> str:
    return link.strip().rsplit("/", 1)[1]


def test_the_link_signs_the_owner_in_once(run: Run) -> None:
    link = run("sign_in").out
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    assert use_sign_in_link(token_of(link)).is_superuser
    with pytest.raises(NotFound):
        use_sign_in_link(token_of(link))


def test_the_link_is_for_the_named_user(run: Run) -> None:
    alice = User.objects.create_user("alice")
    assert use_sign_in_link(token_of(run("sign_in", "--user", "alice").out)) == alice


def test_an_unknown_or_disabled_user_gets_no_link(run: Run) -> None:
    User.objects.create_user("bob", is_active=False)
    assert run("sign_in", "--user", "alice").error == "There is no user 'alice'."
    assert run("sign_in", "--user", "bob").error == "There is no user 'bob'."


def test_the_link_begins_with_the_address_of_the_option(run: Run) -> None:
    link = run("sign_in", "--address", "https://playhead.example.org/").out
    assert link.startswith("https://playhead.example.org/sign-in/")


def test_the_link_leads_to_the_server_that_runs_on_the_data_folder(run: Run) -> None:
    with announced(settings.PLAYHEAD_HOME, "http://127.0.0.1:9000"):
        ran = run("sign_in")
    assert ran.out.startswith("http://127.0.0.1:9000/sign-in/")
    assert ran.err == ""


def test_a_public_address_wins_over_that_of_the_process(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PLAYHEAD_BASE_URL", "https://playhead.example.org")
    with announced(settings.PLAYHEAD_HOME, "http://127.0.0.1:9000"):
        assert run("sign_in").out.startswith("https://playhead.example.org/sign-in/")


def test_a_note_says_that_no_server_runs(run: Run) -> None:
    sentence = f"No server is running on the data folder {settings.PLAYHEAD_HOME}. "
    assert run("sign_in").err.startswith(sentence)
    assert run("sign_in", "--address", "http://127.0.0.1:9000").err == ""


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "127.0.0.1:9000",
        "ftp://127.0.0.1",
        "http://",
        "http://a b",
        "http://a:99999",
        "http://a:b",
        "http://a/b",
        "http://me@a",
        "http://[::1",
        "http://a\x1b[1m",
        "javascript:alert(1)",
    ],
)
def test_an_invalid_address_is_refused_with_a_sentence(run: Run, address: str) -> None:
    ran = run("sign_in", "--address", address)
    assert ran.out == ""
    assert f"{address!r} is not the address of a server. Use http://HOST:PORT or https://HOST" in ran.error


@pytest.mark.parametrize("address", ["http://[::1]:9000", "https://Playhead.example.org", "http://a-b:1/"])
def test_a_server_address_is_used_unchanged(run: Run, address: str) -> None:
    assert run("sign_in", "--address", address).out.startswith(f"{address.rstrip('/')}/sign-in/")
