"""From a step to an agent that continues before it, by clicking and with the lines of the page."""

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from historyapp.models import Project, Session
from historyapp.services.keys import create_key
from tests.browser.visits import page_of, record_session


def test_a_fork_before_a_step_is_continued_with_the_lines_of_its_page(
    page: Page, project: Project, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = record_session(project, 6)
    page.goto(page_of(session, "?step=2"))
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("step=3"))
    page.get_by_role("link", name="Continue from here…").click()
    page.get_by_role("button", name="Fork before step 3").click()
    expect(page.get_by_role("heading", name="Continue this session")).to_be_visible()
    child = Session.objects.exclude(pk=session.pk).get()
    expect(page.locator("#session-id")).to_have_text(str(child.pk))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator('[data-copy="session-id"]').click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == str(child.pk)

    _, key = create_key(project, "agent")
    environment = {
        "PATH": os.environ["PATH"],
        "PLAYHEAD": f"{server}/api/v1",
        "KEY": key,
        "SESSION": str(child.pk),
    }
    names = {"say": '"positions":[', "context": '"request"', "action": '"number":3', "result": '"number":3'}
    for name, expected in names.items():
        lines = page.locator(f"#{name}").inner_text()
        done = subprocess.run(["bash", "-c", lines], env=environment, capture_output=True, text=True)
        assert expected in done.stdout
    for name in ("PLAYHEAD", "KEY", "SESSION"):
        monkeypatch.setenv(name, environment[name])
    code = tmp_path / "continue.py"
    code.write_text(page.locator("#python").inner_text())
    request = runpy.run_path(str(code))["context"].request
    assert "Repair the totals, please." in str(request)  # the whole history, not its newest steps
    child.refresh_from_db()
    assert child.steps == 4
