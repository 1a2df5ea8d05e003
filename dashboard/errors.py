"""Expected errors as pages; as plain text for htmx, which shows it in the error bar."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from historyapp.core.errors import PlayheadError
from historyapp.wire.problems import problem_type


class ErrorPages(MiddlewareMixin):
    """Middleware that shows every :class:`PlayheadError`, so that no view has to catch one."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, PlayheadError):
            return None
        problem = problem_type(exception)
        if getattr(request, "htmx", False):
            plain = "text/plain; charset=utf-8"
            return HttpResponse(exception.detail, status=problem.status, content_type=plain)
        shown = {"title": problem.title, "detail": exception.detail}
        return render(request, "error.html", shown, status=problem.status)
