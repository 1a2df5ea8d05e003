"""The step list: groups fold, and the widths of the panes stay as the reader has set them."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from tests.browser.visits import page_of, record_session
from tests.services.drafts import act, ask, ok


@pytest.fixture
def session(project: Project) -> Session:
    session = record_session(project, 6)
    append(project, session.pk, [ask("now the discount"), act(), ok(), act(), ok()])
    return session


def test_a_pane_keeps_its_width(page: Page, session: Session) -> None:
    page.set_viewport_size({"width": 1440, "height": 930})
    page.goto(page_of(session))
    handle = page.get_by_role("separator", name="Width of the step list")
    box = handle.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(500, box["y"] + 100)
    page.mouse.up()
    expect(page.locator(".steps")).to_have_css("width", "500px")
    page.reload()
    expect(page.locator(".steps")).to_have_css("width", "500px")
    handle.press("ArrowLeft")
    expect(page.locator(".steps")).to_have_css("width", "484px")
