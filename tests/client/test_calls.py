"""The descriptions of calls against the server's own OpenAPI document: nothing missing, nothing else."""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from historyapp.api.root import api
from historyapp.client import (
    ActionProposal,
    ActionSuccess,
    AsyncPlayhead,
    ModelInput,
    Playhead,
    UseTool,
    calls,
)
from historyapp.client.answers import Answer, Page
from historyapp.client.calls import making
from historyapp.client.description import Call, Pages, Stream

SESSION = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"
FILLED: Mapping[str, Any] = {
    "session_id": SESSION,
    "position": 7,
    "number": 7,
    "action": ActionProposal(thoughts="look", use_tool=UseTool(name="ls"), raw_message={"content": "ls"}),
    "result": ActionSuccess(outputs=1),
    "files": [("a.jsonl", b"")],
    "entries": [ModelInput(content="go")],
    "settings": {"max_tokens": 5},
    "tags": ["x"],
    "key_points": ["x"],
    "metadata": {"x": 1},
}
DOCUMENT = api.get_openapi_schema()


class Operation(NamedTuple):
    method: str
    path: str
    """With ``{}`` for what varies."""
    query: frozenset[str]
    body: frozenset[str]


def descriptions() -> dict[str, Callable[..., Any]]:
    modules = [
        import_module(f"{calls.__name__}.{module.name}") for module in pkgutil.iter_modules(calls.__path__)
    ]
    return {
        name: function
        for module in modules
        if module is not making
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def call_of(description: Any) -> Call[Any]:
    match description:
        case Pages(first=call) | Stream(call=call):
            return call_of(call)
    assert isinstance(description, Call)
    return description


def described(function: Callable[..., Any]) -> Operation:
    """What the server is asked when every argument is given."""
    call = call_of(
        function(**{name: FILLED.get(name, "x") for name in inspect.signature(function).parameters})
    )
    path = call.path.replace(SESSION, "{}").replace("/7", "/{}")
    fields = {*(call.body or {}), *(["files"] if call.files else [])}
    return Operation(call.method, path, frozenset(call.query), frozenset(fields))


def served() -> Iterator[Operation]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            short = re.sub(r"\{\w+\}", "{}", path.removeprefix("/api/v1"))
            query = frozenset(p["name"] for p in operation["parameters"] if p["in"] == "query")
            content = operation.get("requestBody", {}).get("content", {})
            fields = frozenset(name for kind in content.values() for name in fields_of(kind["schema"]))
            yield Operation(method.upper(), short, query, fields)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def fields_of(schema: dict[str, Any]) -> set[str]:
    schema = resolved(schema)
    variants = [*schema.get("oneOf", []), *schema.get("anyOf", []), *schema.get("allOf", [])]
    return set(schema.get("properties", {})).union(*map(fields_of, variants))


def together(operations: Iterator[Operation]) -> dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]]:
    """Query and fields of each method and path; several descriptions may ask for the same."""
    found: dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]] = {}
    for method, path, query, body in operations:
        more = found.get((method, path), (frozenset(), frozenset()))
        found[method, path] = (more[0] | query, more[1] | body)
    return found


def test_every_call_of_the_server_is_described_with_all_its_parameters_and_fields() -> None:
    ours = together(map(described, descriptions().values()))
    theirs = together(served())
    assert set(ours) == set(theirs)
    for call, (query, body) in ours.items():
        assert query == theirs[call][0] - {"cursor"}, call
        missing = theirs[call][1] - body
        assert body <= theirs[call][1], call
        assert missing <= {"reason", "error", "feedback"}, call  # a result has those of its own status


@pytest.mark.parametrize("client", [Playhead, AsyncPlayhead])
def test_every_description_is_a_method_of_both_clients(client: type) -> None:
    for name, function in descriptions().items():
        given = list(inspect.signature(function).parameters)
        assert list(inspect.signature(getattr(client, name)).parameters) == ["self", *given]
        assert getattr(client, name).__doc__ == function.__doc__


def answers_of(function: Callable[..., Any]) -> type[BaseModel] | None:
    """The model that a call's answer is read with; None where it is none."""
    read = call_of(
        function(**{name: FILLED.get(name, "x") for name in inspect.signature(function).parameters})
    ).read
    model = getattr(read, "__self__", None)
    return model if isinstance(model, type) and issubclass(model, Answer) else None


@pytest.mark.parametrize("name", [name for name, function in descriptions().items() if answers_of(function)])
def test_every_field_of_an_answer_is_typed(name: str) -> None:
    function = descriptions()[name]
    model = answers_of(function)
    assert model is not None
    operation = described(function)
    path = next(p for p in DOCUMENT["paths"] if re.sub(r"\{\w+\}", "{}", p) == f"/api/v1{operation.path}")
    answered = DOCUMENT["paths"][path][operation.method.lower()]["responses"]
    schema = next(
        resolved(answered[status]["content"]["application/json"]["schema"])
        for status in (200, 201)
        if status in answered
    )
    if issubclass(model, Page):
        model = model.model_fields["items"].annotation.__args__[0]  # type: ignore[union-attr]
        schema = schema["properties"]["items"]["items"]
    known = set(model.model_fields)
    possible = [resolved(variant) for variant in schema.get("anyOf", [schema])]
    assert any(set(variant.get("properties", {})) == known for variant in possible) or "oneOf" in resolved(
        schema
    )
