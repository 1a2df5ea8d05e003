"""Requests pages and fragments, and reads their visible text."""

import re
from html import unescape
from typing import Any

from django.test import Client


def fragment(client: Client, path: str, *, target: str = "") -> Any:
    """The response that htmx gets for an element of the page."""
    return client.get(path, headers={"hx-request": "true", "hx-target": target})


def html(response: Any) -> str:
    return str(response.content.decode())


def text(response: Any) -> str:
    """The page's text in one line, without markup."""
    words = unescape(re.sub(r"<[^>]*>", " ", html(response)))
    return " ".join(words.split())
