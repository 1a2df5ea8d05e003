"""Owners change what the project allows; members read it."""

import pytest
from django.test import Client

from historyapp.models import Project, Session, SpendingCounter
from historyapp.services.keys import create_key
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


def test_an_owner_sets_and_removes_caps_and_sees_what_is_spent(alice: Client, project: Project) -> None:
    alice.post("/project", {"day_cap": "2.5", "month_cap": ""})
    SpendingCounter.objects.filter(project=project).update(counted=1_250_000)
    page = alice.get("/project")
    assert 'value="2.5"' in html(page)
    assert "Spent: $1.25 of $2.50; the next day begins on" in text(page)
    alice.post("/project", {"day_cap": "", "month_cap": ""})
    assert not SpendingCounter.objects.capped().exists()


@pytest.mark.parametrize("cap", ["-1", "nan", "inf", "soon", "1e99"])
def test_an_invalid_cap_is_refused(alice: Client, project: Project, cap: str) -> None:
    refused = alice.post("/project", {"day_cap": cap})
    assert refused.status_code == 422
    assert "A spending cap must be a number from 0" in text(refused)
    assert not SpendingCounter.objects.capped().exists()


def test_an_owner_sets_the_caps_of_a_key(alice: Client, bob: Client, project: Project) -> None:
    key, _ = create_key(project, "agent <b>")
    address = f"/project/keys/{key.pk}/caps"
    assert bob.post(address, {"day_cap": "3"}).status_code == 403
    assert alice.post(address, {"day_cap": "3"}).status_code == 302
    SpendingCounter.objects.filter(key=key).update(counted=1_250_000)
    page = alice.get("/project")
    assert "Spent: $1.25 of $3.00" in text(page)
    assert "agent &lt;b&gt;" in html(page)
    assert not SpendingCounter.objects.of_project(project.pk).capped().exists()
    assert bob.get("/project").status_code == 200


def test_an_owner_sets_the_caps_of_a_session(
    alice: Client, bob: Client, session: Session, project: Project
) -> None:
    address = f"/sessions/{session.pk}/caps"
    assert bob.post(address, {"month_cap": "3"}).status_code == 403
    saved = alice.post(address, {"day_cap": "", "month_cap": "3"})
    assert "Spent: $0.00 of $3.00" in text(alice.get(saved["Location"]))
    assert "$0.00 of $3.00 this month (UTC)" in text(alice.get("/project"))
    alice.post(address, {"day_cap": "", "month_cap": "0.0125"})
    SpendingCounter.objects.filter(session=session).update(counted=405)
    assert "Spent: $0.000405 of $0.0125" in text(alice.get(saved["Location"]))
    assert "$0.000405 of $0.0125 this month (UTC)" in text(alice.get("/project"))
    assert "Only an owner of the project can change them." in text(
        bob.get(f"/sessions/{session.pk}/settings")
    )


def test_a_stranger_cannot_reach_caps(charlie: Client, session: Session, project: Project) -> None:
    key, _ = create_key(project, "agent")
    for address in (f"/sessions/{session.pk}/caps", f"/project/keys/{key.pk}/caps"):
        assert charlie.post(address, {"day_cap": "3"}).status_code == 404
    assert not SpendingCounter.objects.capped().exists()


def test_an_owner_lists_the_allowed_models(
    alice: Client, bob: Client, session: Session, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    alice.post("/project", {"allowed_models": "gpt-5.2\r\n\r\nanthropic:claude-haiku-4-5 \r\n"})
    project.refresh_from_db()
    assert project.allowed_models == ["gpt-5.2", "anthropic:claude-haiku-4-5"]
    assert "gpt-5.2\nanthropic:claude-haiku-4-5</textarea>" in html(bob.get("/project"))
    form = {"strategy": "episode_summary", "model": "gpt-5-mini", "from_step": "1", "to_step": "3"}
    refusal = "It allows gpt-5.2, anthropic:claude-haiku-4-5."
    assert refusal in text(alice.get(f"/sessions/{session.pk}/compressions/new", form))
    refused = alice.post(f"/sessions/{session.pk}/compressions/new", form)
    assert (refused.status_code, refusal in text(refused)) == (422, True)
    wrong = alice.post("/project", {"allowed_models": "bert"})
    assert (wrong.status_code, "No provider is known" in text(wrong)) == (422, True)


def test_an_owner_sets_and_removes_the_summary_instruction(alice: Client, project: Project) -> None:
    alice.post("/project", {"summary_instruction": "Keep <b>paths</b>."})
    project.refresh_from_db()
    assert project.summary_instruction == "Keep <b>paths</b>."
    assert ">Keep &lt;b&gt;paths&lt;/b&gt;.</textarea>" in html(alice.get("/project"))
    alice.post("/project", {"summary_instruction": " \n"})
    project.refresh_from_db()
    assert project.summary_instruction == ""


@pytest.mark.parametrize(
    ("text_sent", "reason"),
    [("x" * 2_001, "The summary instruction has 2,001 characters."), ("a\x07", "the character U+0007")],
)
def test_a_summary_instruction_that_cannot_be_used_is_refused(
    alice: Client, project: Project, text_sent: str, reason: str
) -> None:
    refused = alice.post("/project", {"summary_instruction": text_sent})
    assert refused.status_code == 422
    assert reason in text(refused)
    project.refresh_from_db()
    assert project.summary_instruction == ""
