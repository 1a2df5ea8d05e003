"""A real browser against the real application."""

import os
import threading
from collections.abc import Iterator

import pytest
from django.core.servers.basehttp import ThreadedWSGIServer
from django.core.wsgi import get_wsgi_application
from django.test.testcases import QuietWSGIRequestHandler
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, find
from tests.browser.visits import PATIENCE

# playwright's synchronous API keeps an event loop in this thread, which Django takes for asynchronous code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = find()
    if program is None:
        pytest.fail("There is no Chromium; `make test` installs one.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def _server(django_db_setup: None) -> Iterator[str]:
    httpd = ThreadedWSGIServer(("127.0.0.1", 0), QuietWSGIRequestHandler)
    httpd.set_app(get_wsgi_application())
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def server(_server: str, transactional_db: None) -> str:
    """The address of the application, on the test's own database."""
    return _server


@pytest.fixture
def page(browser: Browser, server: str) -> Iterator[Page]:
    """A page in a fresh profile. Paths are relative to the server; an error in a script fails the test."""
    with browser.new_context(base_url=server) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        complaints: list[str] = []

        def note_error(error: Error) -> None:
            complaints.append(str(error))

        def note_console(message: ConsoleMessage) -> None:
            if message.type == "error" and "Content Security Policy" in message.text:
                complaints.append(message.text)

        page.on("pageerror", note_error)
        page.on("console", note_console)
        yield page
    assert complaints == []
