"""The sentences of "Worth a look" on the overview page, and of its lists without rows."""

from datetime import UTC, datetime, timedelta

from django.test import Client

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall
from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, answer, ask, draft, failed, ok


def test_a_finding_about_a_wait_or_a_slow_step_names_what_was_called(alice: Client, project: Project) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    took = "Chunk ID: 1\nWall time: 70.0000 seconds\nProcess exited with code 0\nOutput:\n"
    asks = {"cmd": "cd /app && make deploy", "sandbox_permissions": "require_escalated"}
    minutes = {
        0: [ask("go")],
        1: [draft(ModelOutput(tool_calls=(ToolCall(id="a", name="exec_command", arguments=asks),)))],
        9: [ok("a", outputs=took), act("AskUserQuestion", questions=[{"question": "Which port?"}])],
        29: [ok(outputs="80"), answer()],
        54: [ask("more")],
        55: [act("AskUserQuestion"), ok()],
    }
    drafts = [each._replace(created_at=begin + timedelta(minutes=at)) for at, each in flat(minutes)]
    session = create_session(project)
    append(project, session.pk, drafts[:-3])
    words = text(alice.get(f"/sessions/{session.pk}/overview"))
    assert "Longest wait for an approval exec_command make deploy 6 min 50 s step 1" in words
    assert "Slowest step: exec_command make deploy 1 min 10 s" in words
    assert "Longest wait for a person's input AskUserQuestion Which port? 20 min 0 s step 2" in words
    append(project, session.pk, drafts[-3:])
    assert "Longest wait for a person's input 25 min 0 s step 4" in text(
        alice.get(f"/sessions/{session.pk}/overview")
    )


def test_repeated_failures_name_every_tool_that_failed(alice: Client, project: Project) -> None:
    session = create_session(project)
    drafts = [act("create_pull_request", title="Fix"), failed()]
    for number in range(2):
        drafts += [act("exec_command", cmd=f"make part-{number}"), failed()]
    append(project, session.pk, drafts)
    words = text(alice.get(f"/sessions/{session.pk}/overview"))
    assert "3 steps in a row failed: create_pull_request, exec_command 1 , 2 , 3" in words


def test_a_list_without_rows_is_no_large_empty_card(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [act("read_file", path="a.py"), ok()])
    words = html(alice.get(f"/sessions/{session.pk}/overview"))
    assert 'id="commands"' not in words
    assert "No command was run." in words
    assert '<section class="card brief" aria-labelledby="repeated">' in words
    append(project, session.pk, [act("bash", command="make"), ok()])
    words = html(alice.get(f"/sessions/{session.pk}/overview"))
    assert 'id="commands"' in words
    assert '<section class="card wide brief" aria-labelledby="repeated">' in words


def flat(minutes: dict[int, list[EntryDraft]]) -> list[tuple[int, EntryDraft]]:
    return [(at, each) for at, drafts in minutes.items() for each in drafts]
