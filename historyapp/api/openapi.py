"""Completing the OpenAPI document with what is the same for every call, and what ninja cannot know."""

import json
from typing import Any

from historyapp.api.problems import MEDIA_TYPE
from historyapp.api.validation import MOST_ERRORS

_PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "What went wrong (RFC 9457). Further fields hold figures that a program can use.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "Names the kind of problem; stable."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong with this request, and what to do."},
        "errors": {
            "type": "array",
            "description": f"Where parameters or fields are not valid, the first {MOST_ERRORS}.",
            "items": {
                "type": "object",
                "required": ["loc", "message"],
                "properties": {
                    "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                    "message": {"type": "string"},
                },
            },
        },
    },
    "examples": [
        {
            "type": "/docs/errors#conflict",
            "title": "Conflict",
            "status": 409,
            "detail": "expected_position is 3, but the session's head is 5. "
            "Read what has been appended since and try again.",
            "head": 5,
        }
    ],
}
_ERRORS = {
    400: "The request cannot be read.",
    401: "No usable API key is given.",
    403: "The key lacks the scope.",
    404: "The project has no such thing.",
    409: "The request does not fit the state of the session.",
    411: "The body comes without its length.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The request is not valid, or cannot be carried out as it stands.",
    502: "The model's provider could not answer, or not as it should.",
    503: "The database is busy. Try again.",
}
_OF_MODELS = ("/contexts", "/calls")
"""Ends of the paths of calls that ask a model's provider."""
_ENDING = "/compressions/{run_id}"
"""End of the path of what can only be deleted while it is under way."""
_WITH_BODY = (409, 411, 413, 415)
_IDEMPOTENCY_KEY: dict[str, Any] = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "Sent again with the same key, the same request is answered as before and not repeated.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_NONE_MATCH: dict[str, Any] = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "description": "The ETag of an earlier answer: 304 while it still holds.",
    "schema": {"type": "string"},
}


def complete(document: dict[str, Any]) -> None:
    """Adds errors, headers and answers of 304 to each call, in place."""
    schemas = document["components"]["schemas"]
    schemas["Problem"] = _PROBLEM
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            _complete_call(path, method, call)
    for name in _unused(document):
        del schemas[name]


def _complete_call(path: str, method: str, call: dict[str, Any]) -> None:
    for parameter in call["parameters"]:
        parameter["schema"] = _without_null(parameter["schema"])
    for status in _errors_of(path, method):
        call["responses"][status] = _problem_response(_ERRORS[status])
    if method == "post":
        call["parameters"].append(_IDEMPOTENCY_KEY)
    elif method == "get" and "{" in path and not path.endswith("/export"):
        call["parameters"].append(_IF_NONE_MATCH)
        call["responses"][200]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        call["responses"][304] = {"description": "As the reader has it."}
    content = call.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        _tighten(content["multipart/form-data"]["schema"])
    for body in content.values():
        # That a body may be left out says `required`; what it then is need not be spelled out.
        (body["schema"],) = body["schema"].get("allOf", [body["schema"]])


def _tighten(form: dict[str, Any]) -> None:
    """A form takes its fields only, and as in a query what is left out is not null."""
    fields = form["properties"]
    form["additionalProperties"] = False
    form["properties"] = {name: _without_null(field) for name, field in fields.items()}
    form["properties"]["files"]["minItems"] = 1


def _errors_of(path: str, method: str) -> list[int]:
    absent = [] if "{" in path else [404]
    if method in ("get", "delete"):
        absent += _WITH_BODY
    if method == "delete" and path.endswith(_ENDING):
        absent.remove(409)
    if method != "post" or not path.endswith(_OF_MODELS):
        absent.append(502)
    return [status for status in _ERRORS if status not in absent]


def _problem_response(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that may be left out is not one that may be null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


def _unused(document: dict[str, Any]) -> list[str]:
    """Schemas that ninja collected and nothing refers to: models that only group query parameters."""
    text = json.dumps(document)
    return [name for name in document["components"]["schemas"] if f'schemas/{name}"' not in text]
