"""A row of the step list shows the action and its result in two lines."""

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.templatetags.playhead import outcome_line, tool_label
from historyapp.models import Episode, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html
from tests.services.drafts import act, answer, failed, ok


def row(client: Client, session: Session, number: int) -> str:
    page = html(fragment(client, reverse("steps", args=[session.pk]) + f"?after={number - 1}"))
    return page[page.index(f'data-step="{number}"') :].split("</li>")[0]


def test_a_row_names_the_target_and_has_the_icon_of_its_kind(alice: Client, session: Session) -> None:
    shown = row(alice, session, 1)
    assert "<b>file-1.txt</b>" in shown
    assert 'aria-label="read"' in shown
    assert "text 1" in shown


def test_a_failure_has_its_line_in_red_and_its_sign(alice: Client, session: Session) -> None:
    shown = row(alice, session, 3)
    assert '<span class="error-line" dir="auto">not found</span>' in shown
    assert 'aria-label="error"' in shown


def test_a_likely_failure_is_not_called_an_error(alice: Client, project: Project, session: Session) -> None:
    output = "Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: no such row"
    append(project, session.pk, [act("bash", command="python a.py"), ok(outputs=output)])
    shown = row(alice, session, 6)
    assert "ValueError: no such row" in shown
    assert 'aria-label="error"' not in shown


def test_an_answer_has_no_tool(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [answer("All done.")])
    shown = row(alice, session, 6)
    assert '<span class="answer">All done.</span>' in shown
    assert 'aria-label="answer"' in shown


def test_only_the_end_of_a_long_path_is_shown(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [act("read_file", path="/home/someone/project/src/<b>.py"), failed()])
    assert ">…/src/&lt;b&gt;.py</b>" in row(alice, session, 6)


def test_a_command_is_shown_without_the_folder_that_it_enters(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [act("bash", command="cd /testbed && make"), ok()])
    shown = " ".join(row(alice, session, 6).split())
    assert '<b title="cd /testbed &amp;&amp; make">make</b>' in shown


def test_a_row_keeps_the_folder_that_a_command_could_not_enter(alice: Client, project: Project) -> None:
    session = create_session(project)
    error = "bash: cd: /nope: No such file or directory"
    append(project, session.pk, [act("bash", command="cd /nope && make"), failed(reason=error)])
    assert "<b>cd /nope &amp;&amp; make</b>" in html(alice.get(f"/sessions/{session.pk}"))


def test_the_icon_replaces_the_tool_name_of_a_single_call(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [act("Read", file_path="a.py"), ok(outputs="1→x\n2→y")])
    shown = row(alice, session, 6)
    assert 'title="Read">' in shown
    assert ">lines 1–2</span>" in " ".join(shown.split())
    append(project, session.pk, [act("look", at=1), ok(outputs="seen")])
    assert 'look <span dir="auto">seen</span>' in " ".join(row(alice, session, 7).split())


def test_an_edit_has_its_lines_and_a_short_thought(alice: Client, project: Project, session: Session) -> None:
    edit = act("Edit", file_path="a.py", old_string="x", new_string="y")
    append(project, session.pk, [edit, ok(outputs="The file a.py has been updated.")])
    assert "+1 −1 · let me see</span>" in row(alice, session, 6)


@pytest.mark.parametrize(
    ("thought", "shown"),
    [
        ("Return early. Then test it.", "+1 · Return early"),
        ("", "+1"),
        ("A sentence that goes on " * 4, "+1"),
    ],
)
def test_only_a_short_thought_follows_the_lines_of_an_edit(thought: str, shown: str) -> None:
    assert outcome_line(Episode(kind="edit", result_preview="+1", thought_preview=thought)) == shown


def test_several_calls_of_one_tool_show_their_number() -> None:
    row = Episode(kind="read", tool_names=["Read", "Read"], result_preview="line 1")
    assert tool_label(row) == "×2"
    row.tool_names = ["Read", "Grep"]
    assert tool_label(row) == "Read, Grep"


def test_the_name_of_an_mcp_tool_is_shown_without_its_server() -> None:
    assert tool_label(Episode(kind="other", tool_names=["mcp__docs__look_up", "think"])) == "look_up, think"
    row = Episode(kind="edit", tool_names=["rm"], status="success", result_preview="Done.")
    assert tool_label(row) == "rm", "a pencil does not say that a file was deleted"


def test_a_success_without_output_says_so() -> None:
    row = Episode(kind="shell", tool_names=["Bash"], status="success")
    assert (tool_label(row), outcome_line(row)) == ("", "(no output)")
    row.status = "in_flight"
    assert (tool_label(row), outcome_line(row)) == ("Bash", "")


def test_a_thought_follows_no_other_result() -> None:
    assert outcome_line(Episode(kind="edit", result_preview="refused", thought_preview="Edit")) == "refused"
    assert outcome_line(Episode(kind="read", result_preview="+1", thought_preview="Read")) == "+1"
