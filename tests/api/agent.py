"""An agent that uses the API in tests."""

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler
from ninja.constants import NOT_SET
from pydantic import TypeAdapter

from historyapp.api.entry_models import LoggedEntry
from historyapp.api.root import api
from historyapp.wire.base import ResponseModel
from historyapp.wsgi import ApiHandler

JSON = "application/json"
Headers = dict[str, str] | None
MAY_BE_LEFT_OUT = {
    *("tool_calls", "tool_call_id", "tool_name", "is_error"),
    *("outputs", "reason", "error", "feedback"),
}
"""Fields of messages and results. Each role and each status has its own."""


@dataclass(frozen=True)
class Received:
    status: int
    body: Any
    """Parsed JSON; null where there is none."""
    headers: Any

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class AgentHandler(ClientHandler):
    """Handles requests as the server does for agents: without the middleware of pages."""

    load_middleware = ApiHandler.load_middleware
    resolve_request = ApiHandler.resolve_request


class Agent:
    """A JSON client with one API key and one base address."""

    def __init__(self, key: str | None, base: str = "/api/v1") -> None:
        self._client = Client(headers={"Authorization": f"Bearer {key}"} if key else {})
        self._client.handler = AgentHandler()
        self._base = base

    def within(self, path: str) -> "Agent":
        """The same agent with a longer base address."""
        agent = Agent(None, f"{self._base}{path}")
        agent._client = self._client
        return agent

    def send(
        self, method: str, path: str, body: bytes = b"", *, type: str = JSON, headers: Headers = None
    ) -> Received:
        """Sends any bytes as the body. The OpenAPI document must declare the response."""
        url = f"{self._base}{path}"
        response = parse_response(self._client.generic(method, url, body, type, headers=headers))
        assert_declared(method, url, response)
        return response

    def get(self, path: str = "", headers: Headers = None) -> Received:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, headers: Headers = None) -> Received:
        data = json.dumps({} if body is None else body).encode()
        return self.send("POST", path, data, headers=headers)

    def patch(self, path: str, body: Any) -> Received:
        return self.send("PATCH", path, json.dumps(body).encode())

    def put(self, path: str, body: Any) -> Received:
        return self.send("PUT", path, json.dumps(body).encode())

    def delete(self, path: str = "") -> Received:
        return self.send("DELETE", path)

    def upload(self, path: str, fields: dict[str, Any], headers: Headers = None) -> Received:
        response = parse_response(self._client.post(f"{self._base}{path}", fields, headers=headers))
        assert_declared("POST", f"{self._base}{path}", response)
        return response

    def append(self, *entries: dict[str, Any]) -> list[int]:
        """Appends entries, which must be accepted. Returns their positions."""
        appended = self.post("/entries", {"entries": list(entries)})
        assert appended.status == 201, appended.body
        return list(appended["positions"])

    def act(self, name: str = "ls", **arguments: Any) -> Received:
        return self.post(
            "/actions", {"thoughts": "let me see", "use_tool": {"name": name, "arguments": arguments}}
        )

    def succeed(self, outputs: Any = "fine") -> Received:
        return self.post("/results", {"status": "success", "outputs": outputs})

    def fail(self, reason: str = "no such file") -> Received:
        return self.post("/results", {"status": "error", "reason": reason})

    def step(self, name: str = "ls", outputs: Any = "fine") -> None:
        """One action and its result."""
        assert self.act(name).status == 201
        assert self.succeed(outputs).status == 201


def parse_response(response: Any) -> Received:
    assert isinstance(response, HttpResponse) or response.streaming
    content = response.getvalue() if response.streaming else response.content
    is_json = "json" in response.get("Content-Type", "") and "ndjson" not in response["Content-Type"]
    return Received(
        response.status_code, json.loads(content) if is_json else content or None, response.headers
    )


def assert_declared(method: str, url: str, response: Received) -> None:
    """Checks that the OpenAPI document lists the response's status and, for a problem, its code."""
    path = url.partition("?")[0]
    route = next((route for route in routes() if route[0] == method and route[1].fullmatch(path)), None)
    if route is None or response.status == 500:  # a test of the server's faults
        return
    declared = route[2].get(str(response.status)) or route[2].get(response.status)
    assert declared, f"{method} {path} does not declare {response.status}: {response.body}"
    if response.status >= 400:
        code = response["type"].partition("#")[2]
        assert f"`{code}`:" in declared["description"], f"{method} {path} does not declare {code}"
    elif model := route[3].get(response.status):
        assert_complete(adapter(model).validate_python(response.body))


def assert_complete(value: Any) -> None:
    """Checks that a response has exactly the fields of its model. An entry leaves out default values."""
    if isinstance(value, list):
        for item in value:
            assert_complete(item)
    elif isinstance(value, ResponseModel) and not isinstance(value, LoggedEntry):
        fields = type(value).model_fields
        missing = fields.keys() - value.model_fields_set - MAY_BE_LEFT_OUT
        assert not missing, (type(value), missing)
        assert not value.model_extra, (type(value), value.model_extra)
        for name in fields:
            assert_complete(getattr(value, name))


@cache
def adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


@cache
def routes() -> list[tuple[str, re.Pattern[str], dict[Any, Any], dict[int, Any]]]:
    """The method, path, declared responses and their models of each route."""
    models = {
        (method, "/api/v1" + path): operation.response_models
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
    return [
        (
            method.upper(),
            re.compile(re.sub(r"{\w+}", "[^/]+", path)),
            route["responses"],
            {
                status: model.model_fields["response"].annotation
                for status, model in models[method.upper(), path].items()
                if model not in (None, NOT_SET)
            },
        )
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method, route in methods.items()
    ]


def ask(text: str = "go") -> dict[str, Any]:
    return {"kind": "model_input", "content": text}


def called(*ids: str, name: str = "read") -> dict[str, Any]:
    calls = [{"id": id, "name": name, "arguments": {"path": id}} for id in ids]
    return {"kind": "model_output", "tool_calls": calls}


def returned(id: str, outputs: Any = "fine") -> dict[str, Any]:
    return {
        "kind": "tool_results",
        "results": [{"tool_call_id": id, "status": "success", "outputs": outputs}],
    }
