"""The API's documentation page works under the content security policy, without other hosts."""

from playwright.sync_api import Page, Request, expect


def test_the_docs_show_every_call_and_load_nothing_from_elsewhere(page: Page) -> None:
    requested: list[str] = []

    def note(request: Request) -> None:
        requested.append(request.url)

    page.on("request", note)
    page.goto("/api/v1/docs")
    expect(page.get_by_role("heading", name="Playhead")).to_be_visible()
    document = page.request.get("/api/v1/openapi.json").json()
    calls = sum(len(methods) for methods in document["paths"].values())
    expect(page.locator(".opblock")).to_have_count(calls)
    page.locator("#operations-actions-post_action").click()
    expect(page.get_by_text("Look at the parser first.").first).to_be_visible()
    here = page.url.split("/api/")[0]
    assert [url for url in requested if not url.startswith((here, "data:"))] == []
