"""The list shows the command for which a step waits."""

from typing import Any

import pytest
from django.test import Client

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall
from historyapp.models import Episode, Project
from historyapp.services.append import append
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.core.test_waits import HEAD, wait
from tests.dashboard.pages import html, text
from tests.services.drafts import draft, ok


def call(id: str, **arguments: Any) -> EntryDraft:
    name = "write_stdin" if "session_id" in arguments else "exec_command"
    return draft(ModelOutput(tool_calls=(ToolCall(id=id, name=name, arguments=arguments),)))


def test_a_row_names_the_command_for_which_its_step_waits(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [call("a", cmd="make test"), ok("a", HEAD.format(7)), call("b", **wait(7))])
    append(project, session.pk, [ok("b", HEAD.format(7)), call("c", **wait(7)), ok("c", "done")])
    page = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert page.count("wait for make test") >= 2
    assert "wait for session" not in page
    pane = html(alice.get(f"/sessions/{session.pk}?step=3"))
    assert 'waits for <span class="copyable"><code>make test</code><button' in pane
    assert '<b title="wait for make test"' in pane
    assert "waits for <span" not in html(alice.get(f"/sessions/{session.pk}?step=1"))
    assert rebuild(session, check_only=True).differences == []
    rewind(project, session.pk, Target(to_position=3))  # within the first wait
    append(project, session.pk, [ok("b", "done")])
    session.refresh_from_db()
    assert rebuild(session, check_only=True).differences == []
    assert "wait for make test" in text(alice.get(f"/sessions/{session.pk}?step=1"))


def test_a_rebuild_adds_the_commands_that_an_earlier_version_did_not_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    with monkeypatch.context() as then:
        then.setattr("historyapp.core.projection.running_after", lambda running, *_: running)
        append(project, session.pk, [call("a", cmd="make"), ok("a", HEAD.format(7)), call("b", **wait(7))])
    append(project, session.pk, [ok("b", HEAD.format(7))])
    session.refresh_from_db()
    assert rebuild(session, check_only=True).differences == []
    rebuild(session)
    targets = Episode.objects.filter(session=session).order_by("number").values_list("target", flat=True)
    assert list(targets) == ["make", "wait for make"]
