"""Which server a command reads, and the error if that fails."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp.models import ApiKey, Project
from historyapp.services.keys import create_key
from historyapp.terminal.errors import CommandFailed, Unreachable, WrongUsage
from historyapp.terminal.server import Server
from tests.terminal.conftest import Playhead

ROOT = Path(__file__).parents[2]
KEY = "ph_x"
PROBE = """
import sys
sys.argv = ["playhead", "sessions", "--json"]
from historyapp.__main__ import main
try:
    main()
finally:
    print([name for name in ("django", "pydantic", "pygments", "historyapp.client") if name in sys.modules])
"""


def server_that(answer: Callable[[httpx.Request], httpx.Response]) -> Server:
    return Server("http://playhead.example", KEY, httpx.MockTransport(answer))


def failure(server: Server) -> CommandFailed:
    with pytest.raises(CommandFailed) as failed:
        server.get("/sessions")
    return failed.value


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"detail": "There is no session."}, CommandFailed),
        (401, {"detail": "There is no such API key."}, CommandFailed),
        (422, {"detail": "The parameter is wrong."}, WrongUsage),
        (503, {"detail": "The database is busy."}, Unreachable),
        (429, {"detail": "Too many requests."}, Unreachable),
    ],
)
def test_the_error_of_a_refusal_is_the_servers_message(status: int, body: dict[str, str], kind: type) -> None:
    error = failure(server_that(lambda _: httpx.Response(status, json=body)))
    assert type(error) is kind
    assert body["detail"] in str(error)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[1]),
        httpx.Response(301, headers={"Location": "http://elsewhere.example"}),
        httpx.Response(404, text="<html>"),
        httpx.Response(200, text="[" * 100_000),
    ],
)
def test_a_server_that_is_not_playhead_is_reported_as_such(response: httpx.Response) -> None:
    assert "Check the address." in str(failure(server_that(lambda _: response)))


def test_text_of_a_server_cannot_control_the_terminal() -> None:
    error = failure(
        server_that(lambda _: httpx.Response(404, json={"detail": "\x1b]0;title\x07" + "x" * 9000}))
    )
    assert "\x1b" not in str(error)
    assert len(str(error)) <= 2000


def test_a_response_cannot_take_any_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.terminal.server._MAX_BODY", 2**20)
    bomb = gzip.compress(b" " * 2**21)
    headers = {"Content-Encoding": "gzip"}
    for status in (200, 404):
        server = server_that(partial(_respond, status, headers, bomb))
        assert "sends more than 1 MB" in str(failure(server))


def _respond(status: int, headers: dict[str, str], content: bytes, _: httpx.Request) -> httpx.Response:
    return httpx.Response(status, headers=headers, content=content)


def test_a_server_that_does_not_answer_cannot_be_reached(playhead: Playhead) -> None:
    printed = playhead("sessions", "--url", "http://127.0.0.1:9", "--key", KEY)
    assert (printed.code, printed.out) == (3, "")
    assert printed.err.startswith("playhead: http://127.0.0.1:9 cannot be reached: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--url", "http://127.0.0.1:9"],
        ["--url", "127.0.0.1:9", "--key", KEY],
        ["--url", "ftp://host", "--key", KEY],
        ["--url", "http://", "--key", KEY],
        ["--url", "http://host:99999", "--key", KEY],
        ["--url", "http://host", "--key", "key with spaces"],
        ["--url", "http://host", "--key", "ключ"],
        ["--url", "http://host", "--key", KEY, "--project", "x"],
        ["--key", KEY],
        ["--limit", "0"],
        ["--status", "old"],
    ],
)
def test_invalid_options_are_wrong_usage(
    playhead: Playhead, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.delenv("PLAYHEAD_API_KEY", raising=False)
    assert playhead("sessions", *arguments).code == 2


@pytest.mark.slow
def test_a_remote_server_is_read_without_loading_django(live_server: LiveServer) -> None:
    key = create_key(Project.objects.create(name="far"), "x")[1]
    environment = {"PLAYHEAD_URL": f"{live_server.url}/", "PLAYHEAD_API_KEY": key, "NO_PROXY": "*"}
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    answer, _, loaded = done.stdout.rpartition("}")
    assert json.loads(answer + "}") == {"items": [], "next": None}
    assert loaded.strip() == "[]"


def test_the_data_folder_needs_no_key_and_stores_none(playhead: Playhead, session_id: UUID) -> None:
    assert playhead("sessions").code == 0
    assert not ApiKey.objects.exists()
