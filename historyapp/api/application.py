"""django-ninja's application. It responds to every error with a problem document."""

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, path
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.operation import Operation

from historyapp.api.openapi import Document, document_view
from historyapp.api.parsing import check_length
from historyapp.api.problems import problem_response
from historyapp.api.validation import nearest_field, not_valid
from historyapp.wire.problems import MAX_FIELD_ERRORS, MEDIA_TYPE, MethodNotAllowed

View = Callable[..., HttpResponseBase]

_UNUSED = HttpResponse()


class PlayheadAPI(NinjaAPI):
    """The endpoints, the OpenAPI document, and one handler for all errors."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app, namespace = super().urls
        own_views = {"openapi-json": document_view(self)}
        guarded: list[URLResolver | URLPattern] = [
            URLPattern(
                pattern.pattern,
                guard(own_views.get(pattern.name or "", pattern.callback)),
                pattern.default_args,
                pattern.name,
            )
            for pattern in patterns
            if isinstance(pattern, URLPattern)
        ]
        unknown = csrf_exempt(lambda request, **_: problem_response(request, Http404()))
        return [*guarded, path("<path:rest>", unknown)], app, namespace

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        """As in ninja, but without cycles through tracebacks, which would keep the body in memory.

        Errors of unknown fields get the name of the nearest field.
        """
        nearest = list[str]()
        for context in error_contexts:
            context.pydantic_validation_error.__traceback__ = None
            for details in context.pydantic_validation_error.errors(include_url=False, include_input=False):
                is_listed = details["type"] == "extra_forbidden" and len(nearest) < MAX_FIELD_ERRORS
                nearest.append(nearest_field(context.model, details["loc"]) if is_listed else "")
        exception = super().validation_error_from_error_contexts(error_contexts)
        for error, name in zip(exception.errors, nearest, strict=True):
            error["nearest"] = name
        return exception

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:
        exc.__traceback__ = None if isinstance(exc, ValidationError) else exc.__traceback__
        return problem_response(request, not_valid(exc.errors) if isinstance(exc, ValidationError) else exc)

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """One response shared by all requests. No endpoint changes it, because each returns its own."""
        return _UNUSED

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> Document:
        return Document(self, path_prefix or self.get_root_path(path_params or {}))


def guard(view: View) -> View:
    """Wraps the view: checks the body's length first, and turns every exception into a problem document."""

    @csrf_exempt
    def guarded(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
        try:
            check_length(request)
            response = view(request, **arguments)
        except Exception as error:  # noqa: BLE001 clients never get a stack trace
            return problem_response(request, error)
        if response.status_code == 405 and response["Content-Type"] != MEDIA_TYPE:
            methods = set(response["Allow"].split(", "))
            methods |= {"HEAD"} if "GET" in methods else set()
            allow = ", ".join(sorted(methods))
            problem = MethodNotAllowed(f"{request.method} is not supported at this address. Use {allow}.")
            response = problem_response(request, problem)
            response["Allow"] = allow
        return response

    return guarded


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Handles requests that Django refuses before a view runs, for example because of an unknown ``Host``."""
    if request.path_info.startswith("/api/"):
        return problem_response(request, exception)
    return defaults.bad_request(request, exception)
