"""The OpenAPI document: ninja's, with headers, 304 responses and the problems of each route added."""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from inspect import unwrap
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import condition, require_safe
from ninja import NinjaAPI
from ninja.constants import NOT_SET
from ninja.openapi.schema import REF_TEMPLATE, OpenAPISchema
from ninja.operation import Operation

from historyapp.api.problems import DECLARED
from historyapp.core.errors import Invalid, NotFound, PlayheadError
from historyapp.wire.problem_document import Problem
from historyapp.wire.problems import (
    MEDIA_TYPE,
    PROBLEM_TYPES,
    DatabaseCorrupt,
    DatabaseLocked,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    Forbidden,
    LengthRequired,
    Malformed,
    NotValid,
    ProblemType,
    ServerUnavailable,
    TooLarge,
    TooManyRequests,
    TransactionTooLong,
    Unauthenticated,
    UnsupportedMediaType,
)

View = TypeVar("View", bound=Callable[..., Any])

_FAULTS = (DiskFull, DatabaseCorrupt, DatabaseReadOnly, DatabaseLocked, DatabaseUnreachable)
_EVERY_ROUTE = (
    *_FAULTS, Malformed, Unauthenticated, Forbidden, NotValid, TooManyRequests, ServerUnavailable,
)  # fmt: skip
_WITH_SESSION = (NotFound, Invalid)
"""The session may not exist, and ``as_of`` may be greater than its head."""
_WITH_BODY = (LengthRequired, TooLarge, UnsupportedMediaType)
_IDEMPOTENCY_KEY: dict[str, Any] = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "A repeated request with the same key gets the stored response and is not carried out "
    "again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_NONE_MATCH: dict[str, Any] = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "description": "The ETag of an earlier response. If it is still current, the response is 304.",
    "schema": {"type": "string"},
}


_WITHOUT_ETAG = set[Callable[..., Any]]()


def without_etag(view: View) -> View:
    """Declares that the responses of a route that reads a session have no ETag."""
    _WITHOUT_ETAG.add(view)
    return view


class Document(OpenAPISchema):
    """The OpenAPI document of one API."""

    def __init__(self, api: NinjaAPI, path_prefix: str) -> None:
        super().__init__(api, path_prefix)
        problem = Problem.model_json_schema(ref_template=REF_TEMPLATE)
        self.schemas |= {**problem.pop("$defs"), "Problem": problem}
        text = json.dumps(self)
        # Nothing refers to the models that only group query parameters.
        for name in [name for name in self.schemas if f'schemas/{name}"' not in text]:
            del self.schemas[name]

    def operation_parameters(self, operation: Operation) -> list[dict[str, Any]]:
        parameters = super().operation_parameters(operation)
        for parameter in parameters:
            parameter["schema"] = _without_null(parameter["schema"])
        headers = [_IDEMPOTENCY_KEY] if "POST" in operation.methods else []
        return parameters + headers + ([_IF_NONE_MATCH] if _has_etag(operation) else [])

    def request_body(self, operation: Operation) -> dict[str, Any]:
        body: dict[str, Any] = super().request_body(operation)
        for media_type, content in body.get("content", {}).items():
            # `required` already says that the body is optional, so its default is removed.
            (content["schema"],) = content["schema"].get("allOf", [content["schema"]])
            if media_type == "multipart/form-data":
                # A form accepts only its own fields. Its optional fields are not nullable, as in a query.
                form = content["schema"]
                form["additionalProperties"] = False
                form["properties"] = {
                    name: _without_null(field) for name, field in form["properties"].items()
                }
                form["properties"]["files"]["minItems"] = 1
        return body

    def responses(self, operation: Operation) -> dict[Any, Any]:
        responses: dict[Any, Any] = super().responses(operation)
        if _has_etag(operation):
            responses[200]["headers"] = {"ETag": {"schema": {"type": "string"}}}
            responses[304] = {"description": "Not modified: the ETag of the request is current."}
        content = {MEDIA_TYPE: {"schema": {"$ref": REF_TEMPLATE.format(model="Problem")}}}
        for type in problem_types(operation):
            meaning = f"`{type.code}`: {type.meaning}"
            response = responses.setdefault(type.status, {"description": "", "content": content})
            response["description"] = " ".join(filter(None, (response["description"], meaning)))
        return responses


def document_view(api: NinjaAPI) -> Callable[..., HttpResponse]:
    """The view of the document. It builds the document once, because that takes about 0.2 s.

    It keeps only the text: the document itself takes 2 MB.
    """

    @cache
    def written() -> tuple[bytes, str]:
        """The text and its ETag."""
        text = json.dumps(api.get_openapi_schema(), ensure_ascii=False).encode()
        return text, f'"{sha256(text).hexdigest()[:32]}"'

    def etag(request: HttpRequest) -> str:
        return written()[1]

    @require_safe
    @condition(etag_func=etag)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(written()[0], content_type="application/json; charset=utf-8")

    return view


def problem_types(operation: Operation) -> list[ProblemType]:
    """The problems that a route can return: those that it declares, and those of all routes of its kind."""
    errors: set[type[PlayheadError]] = {*_EVERY_ROUTE, *DECLARED.get(unwrap(operation.view_func), ())}
    if "{session_id}" in operation.path:
        errors.update(_WITH_SESSION)
    if "POST" in operation.methods:
        errors.add(Invalid)  # an Idempotency-Key that was used for another request
    if not {"POST", "PATCH", "PUT", "DELETE"}.isdisjoint(operation.methods):
        errors.add(TransactionTooLong)
    if not {"POST", "PATCH", "PUT"}.isdisjoint(operation.methods):
        errors.update(_WITH_BODY)
    return [type for type in PROBLEM_TYPES if type.error in errors]


def _has_etag(operation: Operation) -> bool:
    """Whether the response has an ETag. Every read of a session has one, except exports, which are streamed,
    and routes that declare :func:`without_etag`.
    """
    is_read = "GET" in operation.methods and operation.response_models[200] is not NOT_SET
    return is_read and "{session_id}" in operation.path and unwrap(operation.view_func) not in _WITHOUT_ETAG


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: an optional parameter is not nullable."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}
