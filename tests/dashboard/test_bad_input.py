"""Unusual runs are shown sensibly on the session page, its steps, the overview and the ledger."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.dates import UNDATED
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text

MANY = 2000


def recorded(project: Project, *drafts: EntryDraft) -> Session:
    session = create_session(project, names={"title": "An odd run"})
    append(project, session.pk, drafts, lenient=True)
    return Session.objects.get(pk=session.pk)


def called(name: str, arguments: Any, outputs: Any, **more: Any) -> list[EntryDraft]:
    call = ToolCall(id="c", name=name, arguments=arguments)
    result = ToolResult(tool_call_id="c", status="success", outputs=outputs)
    return [
        EntryDraft(ModelOutput(tool_calls=(call,)), **more),
        EntryDraft(ToolResults(results=(result,)), **more),
    ]


def pages(client: Client, session: Session) -> dict[str, str]:
    """Each page and the panel of the first step as text. All of them must load."""
    responses = {
        name: client.get(reverse(name, args=[session.pk])) for name in ("session", "overview", "ledger")
    }
    responses["step"] = fragment(client, reverse("step", args=[session.pk, 1]))
    assert {name: page.status_code for name, page in responses.items()} == dict.fromkeys(responses, 200)
    return {name: text(page) for name, page in responses.items()}


def test_a_run_without_times_is_undated(alice: Client, project: Project) -> None:
    session = recorded(project, *called("Bash", {"command": "ls"}, "a.py", created_at=UNDATED))
    shown = pages(alice, session)
    assert "undated" in shown["step"]
    assert "undated" in shown["overview"]
    assert "The transcript has no dates. Tokens" in shown["overview"]
    assert "Without dates, no step has a duration." in shown["overview"]
    page = html(alice.get(reverse("session", args=[session.pk])))
    assert "undated" in re.findall(r'id="facts".*?</div>', page, re.DOTALL)[0]
    sessions = alice.get(reverse("sessions"))
    assert "undated" in re.findall(r'class="[^"]*\bwhen\b.*?</td>', html(sessions), re.DOTALL)[0]
    assert not any("1970" in each or "0001" in each for each in (*shown.values(), text(sessions)))


def test_a_run_without_dates_has_the_time_that_its_tools_report(alice: Client, project: Project) -> None:
    output, result = called("Bash", {"command": "ls"}, "a.py", created_at=UNDATED)
    result = result._replace(metadata={"execution_time": 4.25})
    shown = text(alice.get(reverse("overview", args=[recorded(project, output, result).pk])))
    assert "The transcript has no dates. Its tools took 4.2 s, by their own reports." in shown
    assert shown.count("undated") == 2, "once in the head, once as the time"


def test_a_run_without_usage_is_estimated(alice: Client, project: Project) -> None:
    shown = pages(alice, recorded(project, *called("Bash", {"command": "ls"}, "a.py")))
    assert "estimated, no usage was reported" in shown["overview"]
    assert "Cost no usage was reported unknown" in shown["overview"]
    assert "Tokens, estimated" in shown["ledger"]


def test_a_run_of_one_step_has_all_its_pages(alice: Client, project: Project) -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    session = recorded(project, EntryDraft(ModelOutput(text="Done."), now))
    Session.objects.filter(pk=session.pk).update(status="finished")
    shown = pages(alice, session)
    assert "1 step" in shown["session"]
    assert "ended with an answer" in shown["overview"]


def test_a_step_of_very_many_calls_shows_the_first_and_links_to_the_others(
    alice: Client, project: Project
) -> None:
    calls = tuple(ToolCall(id=f"c{n}", name="Bash", arguments={"command": f"make {n}"}) for n in range(MANY))
    results = tuple(ToolResult(tool_call_id=call.id, status="success", outputs="ok") for call in calls)
    session = recorded(
        project,
        EntryDraft(ModelOutput(tool_calls=calls)),
        EntryDraft(ToolResults(results=results)),
    )
    shown = pages(alice, session)
    assert "1 of 2000" in shown["step"]
    assert "More tool calls" in shown["step"]
    assert "2,000" in shown["overview"]
    assert len(shown["session"]) < 60_000


def test_megabytes_of_colours_are_cut_and_paged(alice: Client, project: Project) -> None:
    row = "\x1b[1;31mred\x1b[0m \x1b[38;5;120mgreen\x1b[0m \x1b[2K\x1b[1Gtext\n"
    output = row * (5_000_000 // len(row))
    session = recorded(project, *called("Bash", {"command": "make"}, output))
    shown = pages(alice, session)
    assert "red green text" in shown["step"]
    assert "\x1b" not in shown["step"]
    assert len(html(fragment(alice, reverse("step", args=[session.pk, 1])))) < 60_000


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image", "media_type": "image/png", "data": "broken"},
        {"type": "image", "media_type": "image/png", "data": None},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!"}},
        {"type": "image"},
    ],
)
def test_a_broken_image_is_shown_as_what_was_recorded(
    alice: Client, project: Project, image: dict[str, Any]
) -> None:
    content = [{"type": "text", "text": "see here"}, image]
    session = recorded(
        project, EntryDraft(ModelInput(content=content)), *called("Read", {"file_path": "a.png"}, content)
    )
    shown = pages(alice, session)
    assert shown["step"].count("see here") >= 1
    assert "<img" not in html(fragment(alice, reverse("step", args=[session.pk, 1])))


@pytest.mark.parametrize(
    "patch",
    ["*** Begin Patch\nno patch at all", "--- a/x\n+++ b/x\n@@ what @@\nno sign", "diff --git \x00", "@@@@"],
)
def test_an_invalid_patch_is_shown_as_text(alice: Client, project: Project, patch: str) -> None:
    shown = pages(alice, recorded(project, *called("apply_patch", {"input": patch}, "error: no valid patch")))
    assert patch.split("\n")[-1].split()[-1].strip("\x00") in shown["step"]
    assert "error: no valid patch" in shown["step"]
    assert ("Side by side" in shown["step"]) == ("+++ b/" in patch), "its head names a file"
