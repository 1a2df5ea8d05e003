"""The client, connected to the real application."""

from collections.abc import Iterator

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from pytest_django.live_server_helper import LiveServer

from historyapp.client import Playhead, Recorder
from historyapp.models import Project
from tests.api.conftest import key_for
from tests.client.proxy import FaultyProxy


@pytest.fixture
def api_key(db: None) -> str:
    return key_for(Project.objects.create(name="Alice's"), "alice")


@pytest.fixture
def playhead(request: pytest.FixtureRequest, api_key: str) -> Iterator[Playhead]:
    """A client. It uses a socket if the test has ``live_server``, otherwise the test's transaction."""
    if "live_server" in request.fixturenames:
        live_server: LiveServer = request.getfixturevalue("live_server")
        with Playhead(live_server.url, api_key) as client:
            yield client
        return
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)  # it would end the transaction
    transport = httpx.WSGITransport(get_wsgi_application())
    with Playhead("http://localhost", api_key, transport=transport) as client:
        yield client
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def proxy(live_server: LiveServer) -> Iterator[FaultyProxy]:
    """A proxy in front of the application."""
    with FaultyProxy(live_server.url) as proxy:
        yield proxy


@pytest.fixture
def recorder(playhead: Playhead) -> Recorder:
    return Recorder.open(playhead, title="a run")
