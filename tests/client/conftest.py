"""The client at one end, the real application at the other."""

from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.client import Playhead, Recorder
from historyapp.models import Project
from tests.api.conftest import key_for
from tests.client.proxy import FaultyProxy


@pytest.fixture
def api_key(live_server: LiveServer) -> str:
    return key_for(Project.objects.create(name="Alice's"), "alice")


@pytest.fixture
def playhead(live_server: LiveServer, api_key: str) -> Iterator[Playhead]:
    with Playhead(live_server.url, api_key) as client:
        yield client


@pytest.fixture
def proxy(live_server: LiveServer) -> Iterator[FaultyProxy]:
    """On the way to the application."""
    with FaultyProxy(live_server.url) as proxy:
        yield proxy


@pytest.fixture
def recorder(playhead: Playhead) -> Recorder:
    return Recorder.open(playhead, title="a run")
