"""The page that a problem document's ``type`` links to. It needs no key, no sign-in and no network."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from historyapp.wire.problems import PROBLEM_TYPES


@require_safe
def catalogue(request: HttpRequest) -> HttpResponse:
    """All kinds of problems, each under its code."""
    from markdown_it import MarkdownIt  # 3 MB that an idle server does not need

    to_html = MarkdownIt("commonmark").render
    problems = [
        (type, mark_safe(to_html(f"{type.meaning} {type.advice}")))  # noqa: S308 our own words
        for type in PROBLEM_TYPES
    ]
    return render(request, "errors.html", {"problems": problems})
