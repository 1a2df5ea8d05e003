"""django-ninja's application, made to answer problem documents for whatever happens."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, path
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from historyapp.api.openapi import complete
from historyapp.api.parsing import check_length
from historyapp.api.problems import MEDIA_TYPE, MethodNotAllowed, problem_response
from historyapp.api.validation import not_valid
from historyapp.core.errors import NotFound

View = Callable[..., HttpResponseBase]


class PlayheadAPI(NinjaAPI):
    """All calls, the OpenAPI document, and one way to fail."""

    _document: OpenAPISchema | None = None

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app, namespace = super().urls
        guarded: list[URLResolver | URLPattern] = [
            URLPattern(pattern.pattern, guard(pattern.callback), pattern.default_args, pattern.name)
            for pattern in patterns
            if isinstance(pattern, URLPattern)
        ]
        return [*guarded, path("<path:rest>", csrf_exempt(unknown_address))], app, namespace

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:
        return problem_response(request, not_valid(exc.errors) if isinstance(exc, ValidationError) else exc)

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **arguments: Any) -> OpenAPISchema:
        """The document, made once: it is the same for everybody."""
        if self._document is None:
            document = super().get_openapi_schema(**arguments)
            complete(document)
            self._document = document
        return self._document


def guard(view: View) -> View:
    """The view behind the check of the body's length; whatever escapes it becomes a problem document too."""

    @csrf_exempt
    def answer(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
        try:
            check_length(request)
            response = view(request, **arguments)
        except Exception as error:  # noqa: BLE001 whatever it is, no one is shown a stack trace
            return problem_response(request, error)
        if response.status_code == 405 and response["Content-Type"] != MEDIA_TYPE:
            methods = set(response["Allow"].split(", "))
            methods |= {"HEAD"} if "GET" in methods else set()
            return problem_response(
                request, MethodNotAllowed(str(request.method), ", ".join(sorted(methods)))
            )
        return response

    return answer


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of what it refuses before any view is asked, such as an unknown ``Host``."""
    if request.path_info.startswith("/api/"):
        return problem_response(request, exception)
    return defaults.bad_request(request, exception)


def unknown_address(request: HttpRequest, rest: str) -> HttpResponse:
    return problem_response(
        request, NotFound("There is nothing at this address. The calls are listed at /api/v1/docs.")
    )
