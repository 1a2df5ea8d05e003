"""A real browser against the real application."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.servers.basehttp import ThreadedWSGIServer
from django.core.wsgi import get_wsgi_application
from django.test.testcases import QuietWSGIRequestHandler
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from historyapp.models import Project
from tests.browser.chromium import FLAGS, find
from tests.browser.visits import PATIENCE, TRANSPARENT, VIEWPORT, sign_in

# playwright's synchronous API keeps an event loop in this thread, which Django takes for asynchronous code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = find()
    if program is None:
        pytest.fail("There is no Chromium; `make test` installs one.")
    with sync_playwright() as playwright:
        browser = _launch(playwright, program)
        yield browser
        browser.close()


def _launch(playwright: Playwright, program: Path) -> Browser:
    """Starts the browser. Chromium has crashed at a start, so a second try follows."""
    try:
        return playwright.chromium.launch(executable_path=program, args=FLAGS)
    except Error:
        return playwright.chromium.launch(executable_path=program, args=FLAGS)


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


@pytest.fixture(scope="package")
def _profile(browser: Browser, _server: str) -> Iterator[BrowserContext]:
    """One profile for all tests: a new one loads and compiles each script and style again."""
    with browser.new_context(base_url=_server, viewport=VIEWPORT) as context:
        context.set_default_timeout(PATIENCE)
        context.add_init_script(TRANSPARENT)
        yield context


@pytest.fixture(scope="package")
def _profile_without_scripts(browser: Browser, _server: str) -> Iterator[BrowserContext]:
    with browser.new_context(base_url=_server, viewport=VIEWPORT, java_script_enabled=False) as context:
        context.set_default_timeout(PATIENCE)
        yield context


@pytest.fixture(scope="package")
def _tab(_profile: BrowserContext) -> Iterator[Page]:
    """One tab for all tests: starting one and compiling its scripts takes as long as a short test.

    ``SLOWER_BROWSER`` is how many times slower its scripts run, as on an older computer.
    """
    with _profile.new_page() as page:
        if slower := os.environ.get("SLOWER_BROWSER"):
            session = _profile.new_cdp_session(page)
            session.send("Emulation.setCPUThrottlingRate", {"rate": float(slower)})
        yield page


@pytest.fixture(scope="package")
def _tab_without_scripts(_profile_without_scripts: BrowserContext) -> Iterator[Page]:
    with _profile_without_scripts.new_page() as page:
        yield page


@pytest.fixture
def page(_tab: Page, server: str) -> Iterator[Page]:
    """A page without cookies. Paths are relative to the server; an error in a script fails the test."""
    complaints: list[str] = []

    def note_error(error: Error) -> None:
        complaints.append(str(error))

    def note_console(message: ConsoleMessage) -> None:
        if message.type == "error" and "Content Security Policy" in message.text:
            complaints.append(message.text)

    _tab.on("pageerror", note_error)
    _tab.on("console", note_console)
    yield _tab
    _tab.remove_listener("pageerror", note_error)
    _tab.remove_listener("console", note_console)
    _clean(_tab)
    _tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    assert complaints == []


@pytest.fixture
def project(page: Page, server: str) -> Project:
    """Alice's project. She is signed in."""
    return sign_in(page.context, server)


@pytest.fixture
def plain(_tab_without_scripts: Page, server: str) -> Iterator[Page]:
    """A page without cookies in a browser that runs no scripts."""
    yield _tab_without_scripts
    _clean(_tab_without_scripts)


def _clean(page: Page) -> None:
    """Makes a page as a new one is. A page of the same server keeps the process that draws it."""
    page.context.set_offline(False)
    page.unroute_all(behavior="ignoreErrors")
    page.goto("/healthz")
    page.context.clear_cookies()
    page.context.clear_permissions()
    page.set_viewport_size(VIEWPORT)
    page.emulate_media(media="null", color_scheme="null", reduced_motion="null")
    page.mouse.move(0, 0)
    for other in page.context.pages:
        if other != page:
            other.close()
