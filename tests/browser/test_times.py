"""Times are shown in the reader's zone, and in UTC where scripts do not run."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.browser.visits import page_of, sign_in
from tests.services.drafts import act, ok

NIGHT = datetime(2026, 1, 2, 20, 30, 5, tzinfo=UTC)


def session_at_night(project: Project) -> Session:
    session = create_session(project, names={"title": "a run"})
    append(project, session.pk, [draft._replace(created_at=NIGHT) for draft in (act(), ok(), act())])
    append(project, session.pk, [ok()._replace(created_at=NIGHT + timedelta(seconds=100))])
    return session


def in_tokyo(page: Page) -> None:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})


def test_times_are_shown_and_typed_in_the_readers_zone(page: Page, server: str) -> None:
    session = session_at_night(sign_in(page.context, server))
    in_tokyo(page)
    page.goto("/")
    expect(page.locator(".when time")).to_have_text("3 Jan 2026")
    page.goto(page_of(session, "?step=1&axis=time"))
    expect(page.locator(".tick text").first).to_have_text("05:30:10")
    time = page.locator(".step-head time")
    expect(time).to_have_text("3 Jan 2026, 05:30:05")
    expect(time).to_have_attribute("title", "3 Jan 2026, 05:30:05 GMT+9 (2026-01-02 20:30:05 UTC)")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".step-head h2")).to_contain_text("2")
    expect(time).to_have_text("3 Jan 2026, 05:30:05")  # of a step that comes later, too
    filter_from(page, "2026-01-03T05:30:06")
    expect(page).to_have_url(re.compile("since=2026-01-02T20%3A30%3A06"))
    expect(page.get_by_label("From", exact=True)).to_have_value("2026-01-03T05:30:06")
    expect(page.locator("#rows [data-step]")).to_have_count(0)


@pytest.mark.thorough
def test_without_scripts_times_are_in_utc(plain: Page, server: str) -> None:
    session = session_at_night(sign_in(plain.context, server))
    plain.goto(page_of(session, "?since=2026-01-02T20:30:05"))
    expect(plain.locator(".step-head time")).to_have_text("2026-01-02 20:30:05 UTC")
    expect(plain.get_by_label("From (UTC)")).to_have_value("2026-01-02T20:30:05")
    expect(plain.locator("#rows [data-step]")).to_have_count(2)


def filter_from(page: Page, time: str) -> None:
    page.locator(".step-filter summary").click()
    page.get_by_label("From", exact=True).fill(time)
    page.get_by_role("button", name="Filter", exact=True).click()
