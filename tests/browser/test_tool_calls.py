"""Diffs side by side, copies without line numbers, images, and terminals that stay dark."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.browser.visits import page_of
from tests.services.drafts import act, ask, ok

EDIT = {"file_path": "a.py", "old_string": "if x in y:\n    a()", "new_string": "if x not in y:\n    a()"}
GIF = {
    "type": "image",
    "media_type": "image/gif",
    "data": "R0lGODlhAQABAIAAAAAAAP///yH5BAAAAAAALAAAAAABAAEAAAIBRAA7",
}


LINES = """() => {
  const lines = document.createRange();
  lines.selectNodeContents(document.querySelector(".input .text, .input .prose"));
  return [...lines.getClientRects()].map((line) => [line.right, line.top]);
}"""
"""The right and upper edges of the lines of the input."""


@pytest.fixture
def session(project: Project) -> Session:
    session = create_session(project)
    steps = [
        ask("Please look for every place that calls it, " * 9),
        act("Edit", **EDIT),
        ok(),
        act("Bash", command="ls"),
        ok(None, "\x1b[31ma\x1b[0m"),
        act("look"),
        ok(None, [GIF]),
    ]
    append(project, session.pk, steps)
    return session


def test_a_diff_is_copied_and_stays_side_by_side_a_terminal_is_dark_and_an_image_is_drawn(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=1"))
    assert page.locator("#step ins").inner_text().strip() == "if x not in y:"
    expect_no_text_behind_the_button(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".block-head").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "if x in y:\nif x not in y:\n    a()\n"
    split = page.locator("#step table.split")
    page.get_by_role("link", name="Side by side").click()
    expect(split).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".step-head h2")).to_contain_text("2")
    page.keyboard.press("ArrowLeft")
    expect(split).to_be_visible()
    page.get_by_role("link", name="Unified").click()
    expect(split).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect_a_terminal_to_be_dark_in_both_schemes(page)
    page.keyboard.press("ArrowRight")
    expect_an_image_to_be_drawn(page)


def expect_no_text_behind_the_button(page: Page) -> None:
    button = page.locator(".input .copy").bounding_box()
    assert button is not None
    lines = page.evaluate(LINES)
    assert len(lines) > 2
    for right, top in lines:
        assert right <= button["x"] or top >= button["y"] + button["height"] - 3


def expect_a_terminal_to_be_dark_in_both_schemes(page: Page) -> None:
    expect(page.locator("#step .screen")).to_be_visible()
    ground = "getComputedStyle(document.querySelector('#step .screen')).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == light == "rgb(15, 20, 27)"


def expect_an_image_to_be_drawn(page: Page) -> None:
    image = page.get_by_role("img", name="Image, image/gif, 0.0 KB")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
