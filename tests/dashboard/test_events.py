"""A stream of events ends when its reader may no longer read the project."""

from datetime import timedelta
from typing import cast

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client
from django.utils import timezone

from historyapp.event_streams import EventStream, Reader, still_allowed
from historyapp.models import Membership, Session


def reader_of(browser: Client, path: str = "/events") -> Reader:
    return cast(EventStream, browser.get(path)).subscription.reader


def change_password(browser: Client) -> None:
    user = User.objects.get(username="alice")
    user.set_password("another one")
    user.save()


def expire(browser: Client) -> None:
    BrowserSession.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize(
    "lose_access",
    [
        lambda browser: browser.post("/sign-out"),
        change_password,
        expire,
        lambda browser: Membership.objects.all().delete(),
        lambda browser: User.objects.update(is_active=False),
    ],
    ids=["sign-out", "password", "expiry", "membership", "deactivation"],
)
@pytest.mark.parametrize("path", ["/events", "/sessions/{}/events"])
def test_the_stream_of_a_page_ends_with_the_access_of_its_browser(
    alice: Client, session: Session, path: str, lose_access: object
) -> None:
    """It went on after a sign-out and after another password, for as long as the connection stayed open."""
    reader = reader_of(alice, path.format(session.pk))
    assert still_allowed({reader}) == {reader}
    assert callable(lose_access)
    lose_access(alice)
    assert still_allowed({reader}) == set()


def test_a_sign_out_ends_no_stream_of_another_browser(alice: Client, session: Session) -> None:
    other = Client()
    other.force_login(User.objects.get(username="alice"))
    readers = reader_of(alice), reader_of(other)
    alice.post("/sign-out")
    assert still_allowed(readers) == {readers[1]}
