"""On narrow screens a menu leads to all pages, with and without scripts."""

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project
from tests.browser.visits import page_of, record_session, sign_in
from tests.examples import thorough

PAGES = ["Sessions", "Search", "Figures", "Compressions", "Import"]


@pytest.mark.parametrize("width", [360, thorough(768)])
def test_every_page_can_be_reached_on_a_narrow_screen(page: Page, project: Project, width: int) -> None:
    session = record_session(project)
    page.set_viewport_size({"width": width, "height": 740})
    for address in ("/", page_of(session)):
        page.goto(address)
        expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
        menu = page.get_by_role("navigation", name="Pages")
        expect(menu).to_be_hidden()
        page.locator("summary", has=page.get_by_role("img", name="Pages")).click()
        assert menu.get_by_role("link").all_inner_texts() == PAGES
        expect(menu.get_by_role("link", name="Import")).to_be_in_viewport(ratio=1)
    menu.get_by_role("link", name="Import").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Import transcripts")


def test_wide_screens_show_the_links_instead_of_the_menu(page: Page, project: Project) -> None:
    page.goto("/")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    assert links.all_inner_texts() == PAGES
    expect(page.locator("summary", has=page.get_by_role("img", name="Pages"))).to_be_hidden()


def test_the_menu_opens_without_scripts(plain: Page, server: str) -> None:
    sign_in(plain.context, server)
    plain.set_viewport_size({"width": 360, "height": 740})
    plain.goto("/")
    plain.locator("summary", has=plain.get_by_role("img", name="Pages")).click()
    plain.get_by_role("navigation", name="Pages").get_by_role("link", name="Figures").click()
    expect(plain.get_by_role("heading", level=1)).to_contain_text("Figures of")
