"""An agent at the other end of the API."""

import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.test import Client

JSON = "application/json"
Headers = dict[str, str] | None


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    """Parsed JSON; null where there is none."""
    headers: Any

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class Agent:
    """Speaks JSON, and knows one API key and one base address."""

    def __init__(self, key: str | None, base: str = "/api/v1") -> None:
        self._client = Client(headers={"Authorization": f"Bearer {key}"} if key else {})
        self._base = base

    def within(self, path: str) -> "Agent":
        """The same agent with a longer base address."""
        agent = Agent(None, f"{self._base}{path}")
        agent._client = self._client
        return agent

    def send(
        self, method: str, path: str, body: bytes = b"", *, type: str = JSON, headers: Headers = None
    ) -> Answer:
        """Any bytes."""
        response = self._client.generic(method, f"{self._base}{path}", body, type, headers=headers)
        return answer_of(response)

    def get(self, path: str = "", headers: Headers = None) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Headers = None) -> Answer:
        data = json.dumps({} if body is None else body).encode()
        return self.send("POST", path, data, headers=headers)

    def patch(self, path: str, body: Any) -> Answer:
        return self.send("PATCH", path, json.dumps(body).encode())

    def delete(self, path: str = "") -> Answer:
        return self.send("DELETE", path)

    def upload(self, path: str, fields: dict[str, Any], headers: Headers = None) -> Answer:
        return answer_of(self._client.post(f"{self._base}{path}", fields, headers=headers))

    def append(self, *entries: dict[str, Any]) -> list[int]:
        """Positions of entries that must be accepted."""
        appended = self.post("/entries", {"entries": list(entries)})
        assert appended.status == 201, appended.body
        return list(appended["positions"])

    def act(self, name: str = "ls", **arguments: Any) -> Answer:
        return self.post(
            "/actions", {"thoughts": "let me see", "use_tool": {"name": name, "arguments": arguments}}
        )

    def succeed(self, outputs: Any = "fine") -> Answer:
        return self.post("/results", {"status": "success", "outputs": outputs})

    def fail(self, reason: str = "no such file") -> Answer:
        return self.post("/results", {"status": "error", "reason": reason})

    def step(self, name: str = "ls", outputs: Any = "fine") -> None:
        """One action and its result."""
        assert self.act(name).status == 201
        assert self.succeed(outputs).status == 201


def answer_of(response: Any) -> Answer:
    assert isinstance(response, HttpResponse) or response.streaming
    content = response.getvalue() if response.streaming else response.content
    is_json = "json" in response.get("Content-Type", "") and "ndjson" not in response["Content-Type"]
    return Answer(response.status_code, json.loads(content) if is_json else content or None, response.headers)


def said(text: str = "go") -> dict[str, Any]:
    return {"kind": "model_input", "content": text}


def called(*ids: str, name: str = "read") -> dict[str, Any]:
    calls = [{"id": id, "name": name, "arguments": {"path": id}} for id in ids]
    return {"kind": "model_output", "tool_calls": calls}


def returned(id: str, outputs: Any = "fine") -> dict[str, Any]:
    return {
        "kind": "tool_results",
        "results": [{"tool_call_id": id, "status": "success", "outputs": outputs}],
    }
