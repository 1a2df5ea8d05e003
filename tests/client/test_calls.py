"""The descriptions of calls against the server's own OpenAPI document: nothing missing, nothing else."""

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, get_args

import pytest

from historyapp.api.root import api
from historyapp.client import (
    ActionProposal,
    ActionSuccess,
    AsyncPlayhead,
    ModelInput,
    Playhead,
    UseTool,
    endpoints,
)
from historyapp.client.api_call import ApiCall, Pages, Stream
from historyapp.wire.base import Answer, Page
from historyapp.wire.entries import EntryOut

SESSION = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"
FILLED: Mapping[str, Any] = {
    "session_id": SESSION,
    "snapshot_id": SESSION,
    "other_id": SESSION,
    "run_id": SESSION,
    "comparison_id": SESSION,
    "options": {"x": 1},
    "sides": [{}, {}],
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
        import_module(f"{endpoints.__name__}.{module.name}")
        for module in pkgutil.iter_modules(endpoints.__path__)
    ]
    return {
        name: function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def call_of(description: Any) -> ApiCall[Any]:
    match description:
        case Pages(first=call) | Stream(api_call=call):
            return call_of(call)
    assert isinstance(description, ApiCall)
    return description


def filled(function: Callable[..., Any]) -> ApiCall[Any]:
    """The call when every argument is given."""
    parameters = dict(inspect.signature(function).parameters)
    unpacked = next((p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), None)
    wished = get_args(parameters.pop(unpacked.name).annotation)[0].__annotations__ if unpacked else ()
    return call_of(function(**{name: FILLED.get(name, "x") for name in [*parameters, *wished]}))


def described(function: Callable[..., Any]) -> Operation:
    """What the server is asked then."""
    call = filled(function)
    path = call.path.replace(SESSION, "{}").replace("/7", "/{}")
    fields = {*(call.body or {}), *(["files"] if call.files else [])}
    return Operation(call.method, path, frozenset(call.query), frozenset(fields))


def served() -> Iterator[Operation]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            query = frozenset(p["name"] for p in operation["parameters"] if p["in"] == "query")
            content = operation.get("requestBody", {}).get("content", {})
            fields = frozenset(name for kind in content.values() for name in fields_of(kind["schema"]))
            yield Operation(method.upper(), shortened(path), query, fields)


def shortened(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path.removeprefix("/api/v1"))


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
    assert set(ours) == set(theirs), (
        "a new call is described in historyapp/client/endpoints, and both clients get it"
    )
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


def model_of(function: Callable[..., Any]) -> type[Answer] | None:
    """The model that a call's answer is read with; None where it has none."""
    model = getattr(filled(function).read, "__self__", None)
    return model if isinstance(model, type) and issubclass(model, Answer) else None


def schemas_of(operation: Operation) -> list[dict[str, Any]]:
    """What a call may answer; of a page, what its items may be."""
    path = next(path for path in DOCUMENT["paths"] if shortened(path) == operation.path)
    responses = DOCUMENT["paths"][path][operation.method.lower()]["responses"]
    answer = next(responses[status] for status in (200, 201, 202) if status in responses)
    schema = resolved(answer["content"]["application/json"]["schema"])
    if set(schema.get("properties", {})) == {"items", "next"}:
        schema = resolved(schema["properties"]["items"]["items"])
    return [resolved(variant) for variant in schema.get("anyOf", schema.get("oneOf", [schema]))]


@pytest.mark.parametrize("name", [name for name, function in descriptions().items() if model_of(function)])
def test_every_field_of_an_answer_is_typed(name: str) -> None:
    model = model_of(descriptions()[name])
    assert model is not None
    if issubclass(model, Page):
        (model,) = get_args(model.model_fields["items"].annotation)
    assert any(agrees(model, schema) for schema in schemas_of(described(descriptions()[name])))


def agrees(model: type[Answer], schema: dict[str, Any]) -> bool:
    """Whether a model has the fields of a schema, and the models in it those of the schemas in that one.

    An entry has further ones, those of its kind.
    """
    fields, properties = model.model_fields, schema["properties"]
    if set(fields) != set(properties) and not (model is EntryOut and set(fields) < set(properties)):
        return False
    return all(
        agrees(inner, resolved(ref))
        for name, field in fields.items()
        for inner, ref in zip(models_in(field.annotation), refs_in(properties[name]), strict=False)
    )


def models_in(annotation: Any) -> list[type[Answer]]:
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, Answer) else []
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def refs_in(schema: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        return [schema]
    inner = [schema.get("items", {}), *schema.get("anyOf", [])]
    return [ref for part in inner if part for ref in refs_in(part)]
