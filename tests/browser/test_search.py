"""The search of all sessions in a browser: suggestions by keyboard, and results that lead to their text."""

import re

from playwright.sync_api import Page, expect

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok


def test_suggestions_are_chosen_by_keyboard_and_a_match_leads_to_its_text(
    page: Page, project: Project
) -> None:
    session = create_session(project, names={"title": "Mend the hooks", "agent": "mender"})
    append(project, session.pk, [act("look"), ok(outputs="EnsureSetup is here")])
    page.goto("/search")
    field = page.get_by_role("combobox")
    expect(field).to_be_focused()
    page.keyboard.insert_text("ag")  # one request: the answer to a second one would end the choice
    options = page.get_by_role("option")
    expect(options).to_have_text([re.compile("agent:")])
    page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", "suggestion-1")
    page.keyboard.press("Enter")
    expect(options).to_have_text(["agent:mender"])
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_have_value("agent:")
    page.keyboard.press("ArrowDown")
    expect(options).to_have_count(1)
    options.first.click()
    expect(field).to_have_value("agent:mender ")
    field.press_sequentially("ensuresetup")
    page.keyboard.press("Enter")
    result = page.get_by_role("link", name="Mend the hooks · step 1")
    expect(result).to_have_attribute("href", re.compile("find=EnsureSetup"))
