"""A running server says that its disk is full or that its database is damaged."""

import os
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commands.test_up import Up
from tests.installation import copy_migrated
from tests.services.test_faults import PAGE
from tests.services.test_faults import tiny_disk as tiny_disk

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("lighter")]


def api(up: Up) -> httpx.Client:
    key = re.findall(r"API key +(\S+)", up.printed)[0]
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{up.port}", headers=headers, timeout=60)


def database_part(client: httpx.Client) -> tuple[int, Any]:
    response = client.get("/readyz")
    return response.status_code, response.json()["parts"]["database"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    yield from stopped(Up(copy_migrated(tmp_path / "home"), "--no-demo"))


@pytest.fixture
def up_on_tiny_disk(tiny_disk: Path) -> Iterator[Up]:
    yield from stopped(Up(copy_migrated(tiny_disk / "home"), "--no-demo"))


def stopped(up: Up) -> Iterator[Up]:
    yield up
    if up.process.poll() is None:
        up.stop(signal.SIGKILL)


def test_a_full_disk_is_reported_until_there_is_space(up_on_tiny_disk: Up, tiny_disk: Path) -> None:
    with api(up_on_tiny_disk) as client:
        session = client.post("/api/v1/sessions", json={"title": "kept"}).json()["id"]
        path = f"/api/v1/sessions/{session}/entries"
        with (tiny_disk / "other").open("wb", buffering=0) as other, suppress(OSError):
            while True:
                other.write(bytes(512))
        body = {"entries": [{"kind": "model_input", "content": os.urandom(200_000).hex()}]}
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.json()["type"]) == (503, "/docs/errors#disk-full"), refused.text
        assert refused.headers["Retry-After"] == "30"
        assert database_part(client) == (503, "disk-full")
        assert client.get(f"/api/v1/sessions/{session}").json()["head"] == 0
        assert "The disk of the database is full" in client.get("/sign-in").text
        (tiny_disk / "other").unlink()
        assert client.post(path, json=body).status_code == 201
        assert database_part(client) == (200, "ok")
    assert up_on_tiny_disk.stop(signal.SIGTERM) == 0
    assert "database or disk is full" in up_on_tiny_disk.printed


def test_damage_of_a_running_server_stops_every_write(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "home" / "playhead.sqlite3"
    with api(up) as client:
        client.post("/api/v1/sessions", json={"title": "kept"})
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file.open("r+b") as garbled:  # a file that gets shorter would end the process
            garbled.seek(PAGE)
            garbled.write(os.urandom(file.stat().st_size - PAGE))
        end = time.monotonic() + 30
        while not (tmp_path / "home" / "damaged").exists():
            client.post("/api/v1/sessions", json={"title": "lost"})
            assert time.monotonic() < end
        refused = client.post("/api/v1/sessions", json={"title": "lost"})
        assert (refused.status_code, refused.json()["type"]) == (503, "/docs/errors#database-corrupt")
        assert database_part(client) == (503, "database-corrupt")
        page = client.get("/", headers={"Cookie": f"playhead_session={'a' * 32}"})
        assert page.status_code in (302, 503)
