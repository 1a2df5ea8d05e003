"""Expected errors as pages; as plain text for htmx, which shows it in the error bar."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.views import defaults

from historyapp.core.errors import PlayheadError
from historyapp.services.faults import find_damage, unavailable
from historyapp.wire.problems import ServerUnavailable, StorageFailed, problem_type


class ErrorPages(MiddlewareMixin):
    """Middleware that shows every :class:`PlayheadError`, so that no view has to catch one."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if fault := _fault(exception):
            return plain_page(request, fault)
        if not isinstance(exception, PlayheadError):
            return None
        if getattr(request, "htmx", False):
            return plain_page(request, exception)
        problem = problem_type(exception)
        found = getattr(request, "found_session", None)
        context = {"title": problem.title, "detail": exception.detail, "found_session": found}
        page = render(request, "error.html", context, status=problem.status)
        for name, value in _headers_of(exception).items():
            page[name] = value
        return page


def _headers_of(error: PlayheadError) -> dict[str, str]:
    if isinstance(error, ServerUnavailable) and error.retry_after is not None:
        return {"Retry-After": str(error.retry_after)}
    return {}


def _fault(error: BaseException | None) -> ServerUnavailable | None:
    """The fault of the database, if it caused the error."""
    if isinstance(error, StorageFailed):
        return error
    return unavailable(error)


def plain_page(request: HttpRequest, error: PlayheadError, *, is_shared: bool = False) -> HttpResponse:
    """A page without navigation, made without the database: no session, no person. Plain text for htmx.

    Args:
        is_shared: whether a share link leads to it. It then has no link to other pages.
    """
    problem = problem_type(error)
    headers = _headers_of(error)
    if "HX-Request" in request.headers:
        plain = "text/plain; charset=utf-8"
        return HttpResponse(error.detail, status=problem.status, content_type=plain, headers=headers)
    context = {"title": problem.title, "message": error.detail, "is_shared": is_shared}
    page = render_to_string("layout/_plain_error.html", context)
    return HttpResponse(page, status=problem.status, headers=headers)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of exceptions that no view has caught, for example while the user is looked up."""
    fault = _fault(sys.exc_info()[1]) or find_damage()
    return plain_page(request, fault) if fault else defaults.server_error(request)
