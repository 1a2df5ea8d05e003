"""The client's API calls are exactly those of the server's OpenAPI document."""

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
from historyapp.client.api_call import ApiCall, LiveStream, Pages, Stream
from historyapp.wire.base import ResponseModel

SESSION = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"
CAPS = {"daily_cap": 5, "monthly_cap": None}
FILLED: Mapping[str, Any] = {
    "session_id": SESSION,
    "what_if_id": SESSION,
    "share_id": SESSION,
    "search_id": SESSION,
    "bulk_action_id": SESSION,
    "evaluation_id": SESSION,
    "webhook_id": SESSION,
    "delivery_id": SESSION,
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
    "spawned_by": (SESSION, 7),
    "tags": ["x"],
    "key_points": ["x"],
    "metadata": {"x": 1},
    "limits": CAPS,
    "changes": {
        "allowed_models": [],
        "paid_automatic_compression": True,
        "summary_instruction": None,
        **CAPS,
    },
}
DOCUMENT = api.get_openapi_schema()


class Operation(NamedTuple):
    method: str
    path: str
    """Paths, with ``{}`` for each variable part."""
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
        case Pages(first=call) | Stream(api_call=call) | LiveStream(first=call):
            return call_of(call)
    assert isinstance(description, ApiCall)
    return description


def filled(function: Callable[..., Any]) -> ApiCall[Any]:
    """The call when every argument is given."""
    parameters = dict(inspect.signature(function).parameters)
    unpacked = next((p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD), None)
    options = get_args(parameters.pop(unpacked.name).annotation)[0].__annotations__ if unpacked else ()
    return call_of(function(**{name: FILLED.get(name, "x") for name in [*parameters, *options]}))


def described(function: Callable[..., Any]) -> Operation:
    """The request that the API call describes."""
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
    component: dict[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return component


def fields_of(schema: dict[str, Any]) -> set[str]:
    schema = resolved(schema)
    variants = [*schema.get("oneOf", []), *schema.get("anyOf", []), *schema.get("allOf", [])]
    return set(schema.get("properties", {})).union(*map(fields_of, variants))


def together(operations: Iterator[Operation]) -> dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]]:
    """The query parameters and fields of each method and path. Several API calls may share one."""
    parameters: dict[tuple[str, str], tuple[frozenset[str], frozenset[str]]] = {}
    for method, path, query, body in operations:
        more = parameters.get((method, path), (frozenset(), frozenset()))
        parameters[method, path] = (more[0] | query, more[1] | body)
    return parameters


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


def model_of(function: Callable[..., Any]) -> type[ResponseModel] | None:
    """The model with which the client parses the response, or None."""
    model = getattr(filled(function).read, "__self__", None)
    return model if isinstance(model, type) and issubclass(model, ResponseModel) else None


def declared_for(operation: Operation) -> Any:
    """The model that the server declares for the response."""
    (declaration,) = [
        declaration
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for declaration in view.operations
        if shortened(path) == operation.path and operation.method in declaration.methods
    ]
    models = declaration.response_models
    response = next(models[status] for status in (200, 201, 202) if status in models)
    return response.model_fields["response"].annotation


def item_of(page: Any) -> Any:
    (item,) = get_args(page.model_fields["items"].annotation)
    return item


@pytest.mark.parametrize("name", [name for name, function in descriptions().items() if model_of(function)])
def test_a_response_is_parsed_with_the_model_that_the_server_declares(name: str) -> None:
    function = descriptions()[name]
    ours, theirs = model_of(function), declared_for(described(function))
    assert ours is not None
    if name in ("episodes", "full_episodes"):  # each of them requests one of two kinds of items
        ours, theirs = item_of(ours), item_of(theirs)
    kinds = get_args(theirs) or (theirs,)
    assert issubclass(ours, kinds) or all(issubclass(kind, ours) for kind in kinds)
