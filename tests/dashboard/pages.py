"""Asking for pages and fragments, and reading them as people do."""

import re
from html import unescape
from typing import Any

from django.http import HttpResponse
from django.test import Client

HTMX = {"HTTP_HX_REQUEST": "true"}


def fragment(client: Client, path: str, **headers: str) -> Any:
    """What htmx gets."""
    return client.get(path, **HTMX, **headers)


def html(response: Any) -> str:
    assert isinstance(response, HttpResponse) or hasattr(response, "content")
    return str(response.content.decode())


def text(response: Any) -> str:
    """The page's text in one line, without markup."""
    words = unescape(re.sub(r"<[^>]*>", " ", html(response)))
    return " ".join(words.split())
