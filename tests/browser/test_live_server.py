"""The browser tests see what a person sees."""

from playwright.sync_api import Page


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
