"""Owners change what the project allows; members read it."""

import pytest
from django.test import Client

from historyapp.models import Project, Session
from tests.dashboard.pages import html, text


def test_an_owner_turns_paid_automatic_compression_on_and_off(alice: Client, project: Project) -> None:
    assert "checked" not in html(alice.get("/project"))
    saved = alice.post("/project", {"paid_automatic_compression": "on"})
    assert saved["Location"] == "/project?saved=1"
    project.refresh_from_db()
    assert project.paid_automatic_compression
    page = alice.get(saved["Location"])
    assert "Saved." in text(page)
    assert "checked" in html(page)
    alice.post("/project", {})
    project.refresh_from_db()
    assert not project.paid_automatic_compression


def test_a_member_reads_the_settings_and_cannot_change_them(bob: Client, project: Project) -> None:
    page = bob.get("/project")
    assert "Only an owner of the project can change these settings." in text(page)
    assert "<fieldset disabled>" in html(page)
    assert bob.post("/project", {"paid_automatic_compression": "on"}).status_code == 403
    project.refresh_from_db()
    assert not project.paid_automatic_compression


def test_a_session_says_that_its_automatic_runs_use_the_local_summariser(
    alice: Client, session: Session, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    address = f"/sessions/{session.pk}/settings"
    assert "has not turned on paid models" in text(alice.get(address))
    alice.post("/project", {"paid_automatic_compression": "on"})
    assert "has not turned on paid models" not in text(alice.get(address))
