"""``playhead sign-in``: a link that works once."""

import pytest
from django.contrib.auth.models import User

from historyapp.core.errors import NotFound
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


def test_the_link_is_for_whoever_is_named(run: Run) -> None:
    alice = User.objects.create_user("alice")
    assert use_sign_in_link(token_of(run("sign_in", "--user", "alice").out)) == alice


def test_nobody_unknown_or_disabled_gets_a_link(run: Run) -> None:
    User.objects.create_user("bob", is_active=False)
    assert run("sign_in", "--user", "alice").error == "There is nobody called 'alice'."
    assert run("sign_in", "--user", "bob").error == "There is nobody called 'bob'."


def test_the_link_begins_with_the_address_that_is_given(run: Run) -> None:
    link = run("sign_in", "--address", "https://playhead.example.org/").out
    assert link.startswith("https://playhead.example.org/sign-in/")
