"""Opens pages in the browser, signed in and with test data."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from axe_playwright_python.base import AXE_SCRIPT
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize

from historyapp.models import Membership, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, failed, ok

VIEWPORT: ViewportSize = {"width": 1280, "height": 720}
PATIENCE = 30_000
"""The longest wait for an expected change, in milliseconds. The machine may be slow or busy."""
BETWEEN_STEPS = timedelta(milliseconds=10)
"""Between the times of two steps. By the clock, a pause of the machine would put bars at one place."""
PRESS = 400
"""Milliseconds that a person holds a mouse button down. The element under it must not be replaced then."""
TRANSPARENT = """
{
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("html { opacity: 0 !important }");
    document.adoptedStyleSheets = [sheet];
}
"""
"""Chromium does not paint a transparent page, but styles it and lays it out. No test looks at pixels."""
AXE = (
    AXE_SCRIPT
    + """
{
    const { run } = axe;
    axe.run = async (...options) => {
        const sheets = document.adoptedStyleSheets;
        document.adoptedStyleSheets = [];
        const results = await run(...options);
        document.adoptedStyleSheets = sheets;
        return results;
    };
    undefined; // Playwright would call a function
}
"""
)
"""axe-core, which sees a page as people do. It ignores the contrast of transparent texts."""


def sign_in(context: BrowserContext, address: str) -> Project:
    """Signs Alice in: the browser has her cookie from now on. Returns her project."""
    user = User.objects.create_user("alice")
    project = Project.objects.create(name="Alice's project")
    Membership.objects.create(project=project, user=user, is_owner=True)
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": address}])
    return project


def record_session(project: Project, steps: int = 6, *, title: str = "Repair the totals") -> Session:
    """A finished run. Every third step fails, every fifth answers at length."""
    session = create_session(project, names={"title": title, "agent": "demo"})
    begin = timezone.now() - steps * BETWEEN_STEPS
    append(project, session.pk, [ask("Repair the totals, please.")._replace(created_at=begin)])
    for number in range(1, steps + 1):
        output = f"text {number}\n" + ("a line\n" * 400 if number % 5 == 0 else "")
        result = failed(reason="not found") if number % 3 == 0 else ok(outputs=output)
        step = act("read_file", path=f"file-{number}.txt"), result
        time = begin + number * BETWEEN_STEPS
        append(project, session.pk, [draft._replace(created_at=time) for draft in step])
    Session.objects.filter(pk=session.pk).update(status="finished")
    session.refresh_from_db()
    return session


def panel(page: Page) -> Locator:
    """The context panel of the session page."""
    return page.get_by_role("complementary", name="Context")


def page_of(session: Session, query: str = "") -> str:
    return f"/sessions/{session.pk}{query}"


def step_in_view(page: Page) -> int:
    return int(page.locator("[data-at]").get_attribute("data-at") or 0)


SHOW_ONLY_STEP_NUMBERS = """() => {
    const { fetch } = window;
    window.fetch = (url, ...more) => /\\/steps\\/\\d/.test(url) ? new Promise(() => {}) : fetch(url, ...more);
    window.loadInto = async (target, url) => {
        if (target.id !== "step") return;
        const step = url.match(/\\/steps\\/(\\d+)/)[1];
        target.querySelector("[data-at]").dataset.at = step;
        target.querySelector("h2").textContent = `Step ${step}`;
    };
}"""


def show_only_step_numbers(page: Page) -> None:
    """From now on a move shows only the number of its step. To load steps takes most of a move's time."""
    page.evaluate(SHOW_ONLY_STEP_NUMBERS)


@contextmanager
def run_in_each_page(page: Page, script: str) -> Iterator[None]:
    """Runs a script in each page that is loaded, before the page's own. Later it takes longer."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Page.enable")
    devtools.send("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    yield
    devtools.detach()


def hide(page: Page, hidden: bool) -> None:
    """Lets the page believe that its tab is in the background."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def choose(page: Page, name: str) -> None:
    """Chooses from the menu of the session's head."""
    page.locator(".actions summary", has=page.get_by_role("img", name="More")).click()
    page.locator(".actions .menu-item", has_text=re.compile(rf"^\s*{re.escape(name)}")).click()
