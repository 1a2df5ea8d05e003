"""Requests are carried out in threads, and count for the project that they read."""

import asyncio
from typing import Any

import pytest

from historyapp.front.application import Front
from historyapp.front.outbox import IN_MEMORY
from historyapp.front.pools import Client
from historyapp.front.unread import UnreadBytes
from historyapp.models.large_reads import read_for
from historyapp.services.keys import notify_of_credential
from tests.front.limits import small_limits
from tests.front.one_request import request


@pytest.mark.parametrize(
    ("method", "path", "owners"),
    [
        ("POST", "/imports", [b"project"]),
        ("GET", "/sessions/1/exports/markdown", [b"project"]),
        ("GET", "/sessions/1", []),
    ],
)
def test_exports_and_imports_and_what_nobody_reads_yet_count_for_the_project(
    method: str, path: str, owners: list[bytes]
) -> None:
    """A member's fresh browser sessions took the threads that the project's keys had left to others."""
    threads, unread = list[bytes](), list[bytes]()

    class Recorder(UnreadBytes):
        def take(self, client: Client, *rest: Any) -> bool:
            unread.append(client.owner)
            return super().take(client, *rest)

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        notify_of_credential(b"person 1")
        read_for(b"project")
        threads.extend(front._pools["transfers"]._busy_by_owner)
        start_response("200 OK", [])
        return [bytes(IN_MEMORY + 1)]

    front = Front(application, small_limits(), 1)
    front._unread = Recorder(small_limits())
    asyncio.run(request(front, method, path))
    assert threads == owners
    assert unread == [b"project"]
