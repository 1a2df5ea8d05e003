"""Visits of pages of a running server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx


@contextmanager
def signed_in(printed: str) -> Iterator[httpx.Client]:
    """A client of pages that has used the link which ``playhead up`` printed."""
    ((address, link),) = re.findall(r"Sign in +(\S+?)(/sign-in/\S+)", printed)
    with httpx.Client(base_url=address, timeout=30) as client:
        client.get(link)
        posted = client.post(link, headers={"X-CSRFToken": client.cookies["playhead_csrf"]})
        assert posted.status_code == 302
        yield client


def visit_pages(api: httpx.Client, browser: httpx.Client) -> None:
    """Visits several kinds of pages."""
    session = f"/sessions/{api.get('/sessions').json()['items'][0]['id']}"
    api.get("/openapi.json").raise_for_status()
    steps = [f"{session}{path}" for path in ("", "/overview", "/ledger", "/settings")]
    for path in ("/", "/search?q=parser", "/figures", "/compressions", *steps):
        browser.get(path).raise_for_status()
