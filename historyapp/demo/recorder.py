"""Records a session with the public HTTP API."""

import time
from typing import Any, Self
from uuid import UUID, uuid5

import httpx

_NAMESPACE = UUID("6f0c1a52-8f0e-4b7e-9d3a-6d656d6f6465")

WAITS = (0.5, 1, 2, 4)
"""Seconds before each retry if the server is busy, as it can be on its first start."""


class DemoFailed(Exception):
    """The server refused a request of the demo or did not respond."""


class DemoRecorder:
    """One session. Each POST has its own ``Idempotency-Key``, so recording again adds nothing twice."""

    def __init__(self, api: httpx.Client, id: str) -> None:
        self._api = api
        self.id = id
        self._requests = 0

    @classmethod
    def begin(cls, api: httpx.Client, name: str, **fields: Any) -> Self:
        """Creates the session. Its id is computed from ``name`` and the client's API key.

        Args:
            fields: ``title``, ``agent``, ``model``, ``tags`` …
        """
        recorder = cls(api, str(uuid5(_NAMESPACE, f"{api.headers['Authorization']} {name}")))
        recorder._send("POST", "/sessions", {"id": recorder.id, **fields})
        return recorder

    def fork(self, at_step: int, title: str) -> "DemoRecorder":
        """Creates a session that shares this one's first steps."""
        return DemoRecorder(self._api, self.post("forks", at_step=at_step, title=title)["id"])

    def post(self, noun: str, **body: Any) -> dict[str, Any]:
        """Adds to one of the session's collections: ``entries``, ``actions``, ``results``, ``rewinds`` …"""
        return self._send("POST", f"/sessions/{self.id}/{noun}", body)

    def finish(self) -> None:
        self._send("PATCH", f"/sessions/{self.id}", {"status": "finished"})

    def _send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._requests += 1
        headers = {"Idempotency-Key": f"demo-{self.id}-{self._requests}"} if method == "POST" else {}
        try:
            response = self._api.request(method, path, json=body, headers=headers)
            for seconds in WAITS:
                if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    break
                time.sleep(seconds)
                response = self._api.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            raise DemoFailed(f"{method} {path} got no response: {error}") from error
        if response.is_error:
            raise DemoFailed(f"{method} {path} returned {response.status_code}: {response.text[:300]}")
        returned: dict[str, Any] = response.json()
        return returned
