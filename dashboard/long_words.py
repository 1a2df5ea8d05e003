"""Divides long words of all pages, so that no template can show one that stops a browser."""

import re

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from django.utils.safestring import mark_safe

from dashboard.rendering.line_breaks import may_need_many_fonts, with_breaks, with_few_joined

_MARK = re.compile(r"(</?(?:script|style|textarea|title)\b)")
"""The beginnings of tags of elements whose text cannot contain others."""
MAX_FIELD_WORD = 1_000
"""Characters without a space in a field that wraps its lines. It cannot have ``<wbr>``: 20,000 letters "AVAV"
stopped a browser when somebody typed one more."""
_LONG_IN_FIELD = re.compile(rf"(?<![^ \t\n])[^ \t\n]{{{MAX_FIELD_WORD + 1}}}")


class LongWords(MiddlewareMixin):
    """Middleware that adds ``<wbr>`` to HTML, see :func:`with_breaks`. Fields lose joined characters, and
    do not wrap the lines of longer words and of texts that may need many fonts."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_html = response.get("Content-Type", "").startswith("text/html")
        if is_html and isinstance(response, HttpResponse):
            html = response.content.decode(response.charset)
            response.content = _divided(html).encode(response.charset)
        return response


def _divided(html: str) -> str:
    pieces, element = list[str](), ""
    for index, piece in enumerate(_MARK.split(html)):
        if index % 2:
            element = piece.lstrip("<")
            pieces.append(piece)
        elif element == "textarea":
            tag, end, text = piece.partition(">")  # its attributes must keep their quotes
            wraps_slowly = _LONG_IN_FIELD.search(text) or may_need_many_fonts(text)
            wrap = ' wrap="off"' if wraps_slowly else ""
            pieces.append(f"{wrap}{tag}{end}{with_few_joined(text)}")
        elif not element or element.startswith("/"):
            pieces.append(with_breaks(mark_safe(piece)))  # noqa: S308 a part of a page
        else:
            pieces.append(piece)
    return "".join(pieces)
