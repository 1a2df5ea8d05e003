"""Parts that pages load after they are shown, or when somebody opens them, keep the rules of axe-core too."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from historyapp.evaluators import work_on_evaluations
from historyapp.models import Project, Session
from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation
from historyapp.services.rewinds import fork
from tests.browser.test_every_page import OPTIONS
from tests.browser.visits import AXE, page_of, panel, record_session, run_in_each_page
from tests.examples import thorough
from tests.services.evaluations.lookups import record_lookups

VIOLATIONS = """async ([parts, options]) => (await axe.run(parts, options)).violations
    .map(({ id, nodes }) => [id, nodes.map((node) => node.html.slice(0, 100))])"""


@pytest.fixture
def with_axe(page: Page) -> Iterator[Page]:
    with run_in_each_page(page, AXE):
        yield page


def violations(page: Page, part: str) -> list[list[object]]:
    """What axe-core finds within the elements of a selector. It fails if there is none."""
    found: list[list[object]] = page.evaluate(VIOLATIONS, [part, OPTIONS])
    return found


def open_parts(page: Page) -> None:
    """The messages of the request, and where the names of the step come from."""
    panel(page).get_by_text("Messages of the request").click()
    expect(panel(page).locator(".saw-list .message").first).to_be_visible()
    page.get_by_text("Where do these names come from?").click()
    expect(page.locator(".origins-body .loading")).to_have_count(0)
    panel(page).get_by_text("Usage and cost").click()
    expect(panel(page).locator(".chart a").first).to_be_visible()


def choose_what_if_and_bookmark(page: Page) -> None:
    panel(page).get_by_text("What if", exact=True).click()
    expect(panel(page).locator(".segments-list a").first).to_be_visible()
    page.keyboard.press("b")
    expect(page.locator("#note")).to_contain_text("Bookmarked")
    page.locator("summary", has_text="account and theme").click()


def continue_from_here(page: Page) -> None:
    page.get_by_role("link", name="Continue from here…").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def unfold(page: Page) -> None:
    page.get_by_role("link", name="1 fork").click()
    expect(page.locator(".folded-row")).to_have_count(1)
    page.locator("tbody input[type=checkbox]").first.check()
    page.get_by_title("Edit tags, note and score").first.click()
    expect(page.get_by_label("Add tags").first).to_be_visible()


def suggest(page: Page) -> None:
    page.locator("#q").press_sequentially("to")
    expect(page.get_by_role("option").first).to_be_visible()


def wait(page: Page) -> None:
    expect(page.locator(".loading:visible")).to_have_count(0)


CHANGED = "aside[aria-label=Context], .masthead, #step, #note, #rows [data-step='3'], .timeline"
STATES: list[tuple[str, Callable[[Page], None], str]] = [
    ("/sessions/{}?step=3", open_parts, "aside[aria-label=Context], .origins"),
    ("/sessions/{}?step=3", choose_what_if_and_bookmark, CHANGED),
    ("/sessions/{}?step=3", continue_from_here, "#dialog"),
    ("/", unfold, "main"),
    ("/search", suggest, "main"),
    ("/compare?a={}", wait, "main"),
]
"""A path, what is done there, and the part that changes then. A state of the same path continues the visit.

tests/browser/test_palette.py does the same with the palette.
"""


@pytest.mark.parametrize("scheme", ["dark", thorough("light")])
def test_late_parts_keep_the_rules_of_axe(with_axe: Page, project: Project, scheme: str) -> None:
    page = with_axe
    session = record_session(project, 12)
    fork(project, session.pk, at_step=3)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 1440, "height": 930})
    complaints: list[str] = []
    page.on("console", lambda message: _note(complaints, message))
    faults = {}
    visited = ""
    for path, act, part in STATES:
        if path != visited:
            page.goto(path.format(session.pk))
            visited = path
        if path.startswith("/sessions"):
            expect(panel(page).locator(".context-moment")).to_be_visible()
        act(page)
        if found := violations(page, part):
            faults[act.__name__] = found
    assert faults == {}
    assert complaints == []


def open_filter(page: Page) -> None:
    page.get_by_text("Steps", exact=True).first.click()
    page.get_by_title("Filter steps").click()
    expect(page.get_by_role("button", name="Filter", exact=True)).to_be_visible()


@pytest.mark.parametrize("scheme", ["dark", thorough("light")])
def test_narrow_pages_keep_the_rules_of_axe(with_axe: Page, project: Project, scheme: str) -> None:
    page = with_axe
    sessions, policies = [record_lookups(project).pk], ["live", "budgeted"]
    evaluation = start_evaluation(project, EvaluationRequest(sessions, [300, 2000], policies))
    work_on_evaluations()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 360, "height": 780})
    states = [
        (page_of(record_session(project, 12), "?step=3"), open_filter, "html"),
        (f"/evaluations/{evaluation.pk}", wait, "main"),
        (f"/compare?a={record_session(project, 4).pk}&b={record_session(project, 5).pk}", wait, "main"),
    ]
    faults = {}
    for path, act, part in states:
        page.goto(path)
        act(page)
        if found := violations(page, part):
            faults[path] = found
    assert faults == {}


def _note(complaints: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)


def test_a_bookmark_in_a_turn_that_the_list_does_not_show_logs_no_error(page: Page, project: Project) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: _note(complaints, message))
    session: Session = record_session(project, 12)
    page.goto(page_of(session, "?step=3&status=error"))
    with page.expect_response(lambda response: "/news?" in response.url):
        page.keyboard.press("b")
    expect(page.locator("#note")).to_contain_text("Bookmarked")
    expect(page.locator("[data-turn-head]")).to_have_count(1)
    assert complaints == []
