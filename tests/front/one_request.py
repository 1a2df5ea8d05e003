"""A request to a server's front, without a connection."""

import asyncio
from typing import Any

from historyapp.front.application import Front


async def get(front: Front, path: str = "/", *headers: tuple[bytes, bytes]) -> int:
    """Requests a path, and returns the status of the response."""
    statuses: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [*headers],
        "client": ("10.0.0.1", 1000), "server": ("127.0.0.1", 80), "scheme": "http", "http_version": "1.1",
        "root_path": "",
    }  # fmt: skip
    await front(scope, receive, send)
    (status,) = statuses
    return status
