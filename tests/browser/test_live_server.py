"""The browser tests see what a person sees."""

from playwright.sync_api import Page

from tests.browser.visits import AXE


def test_the_server_answers_with_its_security_headers(page: Page) -> None:
    response = page.goto("/healthz")
    assert response is not None
    assert response.text() == "ok\n"
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def test_static_files_come_compressed_and_cached_for_ever(page: Page) -> None:
    from django.templatetags.static import static

    response = page.goto(static("django_htmx/htmx-2.min.js"))
    assert response is not None
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-encoding"] == "gzip"
    assert "htmx" in response.text()


def test_axe_measures_the_contrast_of_texts(page: Page) -> None:
    page.goto("/healthz")
    page.evaluate(AXE)
    page.locator("pre").evaluate("text => text.style.color = 'silver'")
    found = page.evaluate("axe.run({ runOnly: ['color-contrast'] })")
    assert [violation["id"] for violation in found["violations"]] == ["color-contrast"]
