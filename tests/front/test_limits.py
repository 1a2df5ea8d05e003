"""How clients are identified, and what one client may use at a time."""

from contextlib import ExitStack
from uuid import uuid4

import pytest

from historyapp.asgi import make_front
from historyapp.front.application import CALL_THREADS, SPARE_CALL_THREADS
from historyapp.front.limits import MAX_KEYS, Projects, client_of
from historyapp.wire.problems import TooManyRequests

API = "/api/v1/sessions"


@pytest.mark.parametrize("header", [b"bearer k", b"BEARER k", b"Bearer   k ", b"Bearer \xa0k\x85"])
def test_a_key_is_one_client_in_any_notation_of_its_header(header: bytes) -> None:
    assert client_of(API, header, "10.0.0.1") == client_of(API, b"Bearer k", "10.0.0.2")


@pytest.mark.parametrize("header", [b"", b"Bearer ", b"Basic k", b"k"])
def test_without_a_key_the_address_is_the_client(header: bytes) -> None:
    assert client_of(API, header, "10.0.0.1") == client_of(API, b"", "10.0.0.1")
    assert client_of(API, header, "10.0.0.1") != client_of(API, b"", "10.0.0.2")


def test_all_readers_of_a_share_link_are_one_client() -> None:
    page = client_of("/s/token/", b"", "10.0.0.1")
    assert page == client_of("/s/token/sessions/1/steps", b"Bearer k", "10.0.0.2")
    assert page not in (client_of("/s/another/", b"", "10.0.0.1"), client_of("/", b"", "10.0.0.1"))


def test_the_client_of_a_page_request_is_its_address_with_any_key() -> None:
    """Otherwise somebody who is signed in could be a new client with each request."""
    assert client_of("/sessions", b"Bearer k", "10.0.0.1") == client_of("/sessions", b"", "10.0.0.1")


def test_the_project_of_a_key_is_known_after_its_first_request() -> None:
    projects, project = Projects(), uuid4()
    assert projects.project_of(b"key") == b"key"
    for client, of in ((b"key", project), (b"other key", project), (b"no key", None)):
        projects.remember(client, of)
    assert projects.project_of(b"key") == projects.project_of(b"other key") == project.bytes
    assert projects.project_of(b"no key") == b"no key"


def test_the_projects_of_a_limited_number_of_keys_are_remembered() -> None:
    projects = Projects()
    for number in range(MAX_KEYS + 1):
        projects.remember(b"%d" % number, uuid4())
    assert projects.project_of(b"0") == b"0"
    assert projects.project_of(b"%d" % MAX_KEYS) != b"%d" % MAX_KEYS


def test_neither_a_key_nor_an_address_can_use_all_model_call_threads() -> None:
    """With the default limits of a server."""
    clients = make_front(1).clients
    threads = CALL_THREADS + SPARE_CALL_THREADS

    def call_until_refused(requests: ExitStack, key: bytes, address: str) -> int:
        for made in range(threads):
            try:
                requests.enter_context(clients.admitted(key, address, size=0, is_long=True))
            except TooManyRequests:
                return made
        return threads

    with ExitStack() as requests:
        of_key = call_until_refused(requests, b"key", "10.0.0.1")
        assert 0 < of_key <= threads // 4
        of_address = of_key + sum(call_until_refused(requests, b"%d" % n, "10.0.0.1") for n in range(9))
        assert of_address == 3 * of_key < threads
        assert call_until_refused(requests, b"key of somebody else", "10.0.0.2") == of_key
