"""Expected errors as pages; as plain text for htmx, which shows it in the error bar."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import problem_type


class ErrorPages:
    """Middleware that shows every :class:`PlayheadError`, so that no view has to catch one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, PlayheadError):
            return None
        problem = problem_type(exception)
        if getattr(request, "htmx", False):
            return HttpResponse(
                exception.detail, status=problem.status, content_type="text/plain; charset=utf-8"
            )
        shown = {"title": problem.title, "detail": exception.detail}
        return render(request, "error.html", shown, status=problem.status)
