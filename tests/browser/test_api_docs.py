"""The API's documentation page works under the content security policy, without other hosts."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.examples import thorough

ACTIONS = "/api/v1/sessions/{session_id}/actions"


def part_of(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The document with one path and what it refers to: to draw all calls takes three seconds."""
    schemas: dict[str, Any] = {}
    missing = {path: document["paths"][path]}
    while missing:
        schemas |= missing
        names = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(missing))
        missing = {name: document["components"]["schemas"][name] for name in names if name not in schemas}
    paths = {path: schemas.pop(path)}
    return document | {"paths": paths, "components": document["components"] | {"schemas": schemas}}


@pytest.mark.parametrize("path", [ACTIONS, thorough("")])
def test_the_docs_show_every_call_and_load_nothing_from_elsewhere(page: Page, path: str) -> None:
    requested: list[str] = []
    document = page.request.get("/api/v1/openapi.json").json()
    if path:
        document = part_of(document, path)

    def note(request: Request) -> None:
        requested.append(request.url)

    def answer(route: Route) -> None:
        route.fulfill(json=document)

    page.on("request", note)
    page.route("**/openapi.json", answer)
    page.goto("/api/v1/docs")
    expect(page.get_by_role("heading", name="Playhead")).to_be_visible()
    calls = sum(len(methods) for methods in document["paths"].values())
    expect(page.locator(".opblock")).to_have_count(calls)
    page.locator("#operations-actions-post_action").click()
    expect(page.get_by_text("Look at the parser first.").first).to_be_visible()
    page.remove_listener("request", note)
    here = page.url.split("/api/")[0]
    assert [url for url in requested if not url.startswith((here, "data:"))] == []
