"""Continuing from a step: fork before or after it, or rewind to before it; then lines to continue with."""

import json
import os
import re
import subprocess
from html import unescape
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.api.actions import ErrorIn, SuccessIn
from historyapp.core.entries import ModelInput, SystemInstruction, ToolResult, ToolResults
from historyapp.core.settings import SessionSettings
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.compression.start import compress_if_due, due_sessions
from historyapp.services.contexts import RequestedContext
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.snapshots import serve_context
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, draft, ok, tool_calls

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def form(session: Session, query: str = "") -> str:
    return reverse("continue", args=[session.pk]) + query


def continued(
    client: Client, session: Session, way: str, step: str, query: str = "", **fields: str
) -> Session:
    """The session that continues, after its page with the lines was opened."""
    response = client.post(form(session, query), {"way": way, "step": step, **fields})
    *_, session_id, page = response["Location"].split("/")
    assert page == "connect"
    assert client.get(response["Location"]).status_code == 200
    return Session.objects.get(pk=UUID(session_id))


def test_each_way_to_continue_says_what_it_keeps_and_cuts_off(alice: Client, session: Session) -> None:
    page = text(alice.get(form(session, "?step=4")))
    assert "A new session with steps 1–3, in which the model tries step 4 again." in page
    assert "A new session with steps 1–4 and their results." in page
    assert "This cuts off steps 4–5: 2 steps, 4 entries." in page


def test_each_way_to_continue_says_what_the_model_sees_next(alice: Client, session: Session) -> None:
    page = html(alice.get(form(session, "?step=4")))
    assert re.search(r"The next request ends with the result of step 3:\s*<q[^>]*>not found</q>", page)
    assert ">text 4</q>" in page
    assert f'href="{reverse("session", args=[session.pk])}?as_of=7&amp;step=-1&amp;mode=what_if"' in page
    shown = alice.get(reverse("session", args=[session.pk]) + "?as_of=7&step=-1&mode=what_if").context
    assert (shown["location"].step, shown["options"].mode) == (3, "what_if")


def test_of_parallel_calls_the_last_result_is_what_the_request_ends_with(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [tool_calls("one", "two"), ok("two", "second"), ok("one", "first")])
    page = html(alice.get(form(session, "?step=6")))
    assert re.search(r"result of step 6:\s*<q[^>]*>second</q>", page)
    third = ToolResult(tool_call_id="three", status="success", outputs="third")
    remark = draft(ToolResults(results=(third,), overall="Be quick."))
    append(project, session.pk, [tool_calls("three"), remark])
    page = html(alice.get(form(session, "?step=7")))
    assert re.search(r"result of step 7:\s*<q[^>]*>Overall: Be quick.</q>", page)


@pytest.mark.parametrize("channel", ["user", "developer"])
def test_an_input_during_a_step_is_what_the_request_ends_with(
    alice: Client, project: Project, session: Session, channel: str
) -> None:
    during = draft(ModelInput(channel=channel, content="Mind the tests."))
    append(project, session.pk, [tool_calls("one"), during, ok("one", "found")])
    session.refresh_from_db()
    sent = serve_context(session, RequestedContext(format="plain")).built.request
    assert str(sent).rindex("Mind the tests.") > str(sent).rindex("found")
    for page in (form(session, "?step=6"), reverse("connect", args=[session.pk])):
        assert "The next request ends with the input Mind the tests." in text(alice.get(page))


def test_after_a_rewind_the_page_offers_to_undo_it(alice: Client, session: Session) -> None:
    response = alice.post(form(session), {"way": "rewind", "step": "4"})
    page = alice.get(response["Location"])
    assert "Rewound: 2 steps cut off and kept as a take." in text(page)
    assert reverse("undo", args=[session.pk, session.head + 1]) in html(page)


@pytest.mark.parametrize("rewound", [False, True])
def test_a_fork_leads_to_its_parent_as_it_is_unless_a_rewind_cut_the_step_off(
    alice: Client, project: Project, session: Session, rewound: bool
) -> None:
    child = continued(alice, session, "fork-after", "3")
    if rewound:
        rewind(project, session.pk, Target(to_step=1))
    query = f"?as_of={child.fork_position}&amp;step=-1" if rewound else "?step=3"
    for page in ("connect", "session"):
        shown = html(alice.get(reverse(page, args=[child.pk])))
        assert f'href="{reverse("session", args=[session.pk])}{query}"' in shown, page
    assert "a fork of Repair the totals after step 3" in text(alice.get(reverse("connect", args=[child.pk])))


def test_a_fork_of_a_fork_leads_to_its_parent_as_it_is(
    alice: Client, project: Project, session: Session
) -> None:
    parent = fork(project, session.pk, at_step=4)
    child = fork(project, parent.pk, at_step=2)
    address = reverse("session", args=[parent.pk])
    assert f'href="{address}?step=2"' in html(alice.get(reverse("session", args=[child.pk])))


def test_before_the_first_step_only_the_inputs_are_left(alice: Client, session: Session) -> None:
    page = text(alice.get(form(session, "?step=1")))
    assert "The next request ends with the input Repair the totals, please. ." in page
    child = continued(alice, session, "fork-before", "1")
    assert History(child).steps == 0
    assert History(child).tail.input_preview == "Repair the totals, please."


def test_a_fork_before_a_step_keeps_the_inputs_that_led_to_it(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [ask("Now the tests."), act("run_tests"), ok()])
    child = continued(alice, session, "fork-before", "6")
    assert History(child).steps == 5
    assert History(child).tail.input_preview == "Now the tests."
    session.refresh_from_db()
    assert History(session).steps == 6


def test_a_fork_after_a_step_keeps_its_results(alice: Client, session: Session) -> None:
    child = continued(alice, session, "fork-after", "2")
    assert History(child).steps == 2
    assert History(child).row(2).result_preview == "text 2"
    assert child.forked_from == session


def test_a_rewind_to_before_a_step_makes_it_a_take(alice: Client, session: Session) -> None:
    assert continued(alice, session, "rewind", "4", reason="wrong way") == session
    session.refresh_from_db()
    assert History(session).steps == 3
    assert "“ wrong way ”" in text(alice.get(reverse("session", args=[session.pk])))


def test_entries_appended_meanwhile_are_not_cut_off_unseen(
    alice: Client, project: Project, session: Session
) -> None:
    seen = session.head
    append(project, session.pk, [act(), ok()])
    response = alice.post(form(session), {"way": "rewind", "step": "4", "expected_position": seen})
    assert response.status_code == 409


def test_a_take_can_be_forked_but_not_rewound(alice: Client, project: Project, session: Session) -> None:
    head = session.head
    rewind(project, session.pk, Target(to_step=1))
    page = text(alice.get(form(session, f"?as_of={head}&step=4")))
    assert "Fork before step 4" in page
    assert "Rewind to before" not in page
    child = continued(alice, session, "fork-before", "4", f"?as_of={head}")
    assert History(child).row(3).status == "error"


def test_an_archived_session_can_only_be_forked(alice: Client, project: Project, session: Session) -> None:
    change_session(project, session.pk, {"status": "archived"})
    assert "Rewind to before" not in text(alice.get(form(session, "?step=4")))


def test_an_unknown_way_to_continue_is_refused(alice: Client, session: Session) -> None:
    response = alice.post(form(session), {"way": "sideways", "step": "4"})
    assert response.status_code == 422
    assert "Choose fork-before, fork-after or rewind." in text(response)
    assert Session.objects.count() == 1


def test_a_session_without_steps_continues_unchanged(alice: Client, session: Session) -> None:
    empty = continued(alice, session, "fork-before", "1")
    assert alice.get(form(empty)).status_code == 422


@pytest.mark.parametrize("page", ["continue", "connect"])
def test_strangers_get_404(charlie: Client, session: Session, page: str) -> None:
    assert charlie.get(reverse(page, args=[session.pk])).status_code == 404


def test_the_dialog_gets_only_the_form(alice: Client, session: Session) -> None:
    assert html(fragment(alice, form(session, "?step=2"))).startswith('<div class="continue')


def test_the_current_session_is_not_shown_as_a_past_one(alice: Client, session: Session) -> None:
    append(session.project, session.pk, [act()])
    address = reverse("session", args=[session.pk]) + "?step=-1&mode=what_if"
    assert f'href="{address.replace("&", "&amp;")}"' in html(alice.get(reverse("connect", args=[session.pk])))
    assert "You are viewing" not in text(alice.get(address))


def test_the_lines_name_the_server_and_the_session(alice: Client, session: Session) -> None:
    page = text(alice.get(reverse("connect", args=[session.pk])))
    assert f"export PLAYHEAD=http://testserver/api/v1 export KEY=ph_… export SESSION={session.pk}" in page
    assert f'"expected_position": {session.head}' in page


@pytest.mark.parametrize(("name", "model"), [("result", SuccessIn), ("failure", ErrorIn)])
def test_the_lines_show_a_result_that_succeeded_and_one_that_failed(
    alice: Client, session: Session, name: str, model: type[SuccessIn | ErrorIn]
) -> None:
    page = unescape(html(alice.get(reverse("connect", args=[session.pk]))))
    lines = re.search(f"id=\"{name}\".*?-d '(.*?)'</pre>", page, re.DOTALL)
    assert lines is not None
    assert model.model_validate_json(lines[1])


def test_the_lines_add_an_input_only_if_the_model_has_nothing_to_answer(
    alice: Client, project: Project, session: Session
) -> None:
    address, say = reverse("connect", args=[session.pk]), 'recorder.say("Continue.")'
    assert say not in unescape(html(alice.get(address)))
    assert "the next request already ends with a result" in text(alice.get(address))
    append(project, session.pk, [answer()])
    assert say in unescape(html(alice.get(address)))
    append(project, session.pk, [ask("Now the tests.")])
    assert say not in unescape(html(alice.get(address)))


def test_a_command_that_claude_code_runs_itself_leaves_nothing_to_answer(
    alice: Client, session: Session
) -> None:
    command = "<command-name>/exit</command-name>\n<command-message>exit</command-message>"
    append(session.project, session.pk, [answer(), draft(ModelInput(content=command, channel="command"))])
    page = alice.get(reverse("connect", args=[session.pk]))
    assert 'recorder.say("Continue.")' in unescape(html(page))
    assert "The history ends with the answer of step 6" in text(page)


def test_an_image_is_an_input_to_answer(alice: Client, session: Session) -> None:
    append(session.project, session.pk, [answer(), draft(ModelInput(content=[IMAGE]))])
    page = alice.get(reverse("connect", args=[session.pk]))
    assert 'recorder.say("Continue.")' not in unescape(html(page))
    assert "The next request ends with an input without text." in text(page)
    append(session.project, session.pk, [answer()])
    dialog = text(alice.get(form(session, "?step=7")))
    assert "The next request ends with an input without text." in dialog


def test_a_run_of_claude_code_continues_there(alice: Client, session: Session, tmp_path: Path) -> None:
    """The lines run in a shell whose curl copies the export and whose claude prints its arguments."""
    Session.objects.filter(pk=session.pk).update(agent="claude-code", metadata={"cwd": "/srv/shop"})
    child = continued(alice, session, "fork-after", "2")
    page = alice.get(reverse("connect", args=[child.pk]))
    assert "Files are not restored" in text(page)
    assert "the agent worked in /srv/shop" in text(page)
    code = re.search(r'id="claude-code"[^>]*>(.*?)</pre>', page.content.decode(), re.DOTALL)
    assert code is not None
    exported = b"".join(alice.get(reverse("export", args=[child.pk, "claude_code"])))
    programs = {
        "curl": f'printf "%s" "$4" > {tmp_path}/url; cat {tmp_path}/export > "$3" || exit 22',
        "claude": 'echo "$@"',
    }
    for name, program in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    folder = tmp_path / "my_shop"
    folder.mkdir()
    variables = {"PLAYHEAD": "http://p/api/v1", "KEY": "k", "SESSION": str(child.pk), "HOME": str(tmp_path)}
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
    command = ["sh", "-c", unescape(code[1])]
    refused = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (22, ""), "nothing is resumed without a file"
    (tmp_path / "export").write_bytes(exported)
    shell = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert (tmp_path / "url").read_text() == f"http://p/api/v1/sessions/{child.pk}/export?format=claude_code"
    id = shell.stdout.split()[-1]
    assert shell.stdout == f"--resume {id}\n"
    named = re.sub("[^A-Za-z0-9]", "-", str(folder.resolve()))
    assert (tmp_path / ".claude/projects" / named / f"{id}.jsonl").read_bytes() == exported
    assert json.loads(exported.splitlines()[0])["sessionId"] == id


def test_for_other_harnesses_the_page_says_what_is_possible(alice: Client, session: Session) -> None:
    address = reverse("connect", args=[session.pk])
    assert "Continue in" not in text(alice.get(address)), "its agent records with the API"
    Session.objects.filter(pk=session.pk).update(agent="codex")
    page = alice.get(address)
    assert "Playhead cannot write session files for codex" in text(page)
    assert "claude --resume" not in text(page)
    assert reverse("export", args=[session.pk, "markdown"]) in html(page)
    assert 'codex "Read playhead-history.md' in unescape(html(page))


AUTOMATIC = SessionSettings(full_message_count=2, compression_batch_size=2, compress_automatically=True)


def imported(project: Project, settings: SessionSettings, steps: int = 4) -> Session:
    session = create_session(project, settings=settings)
    drafts = [draft for _ in range(steps) for draft in (act(), ok())]
    append(project, session.pk, drafts, lenient=True)
    session.refresh_from_db()
    return session


def test_the_lines_say_that_the_next_step_starts_a_compression(alice: Client, project: Project) -> None:
    session = imported(project, AUTOMATIC)
    page = text(alice.get(reverse("connect", args=[session.pk])))
    assert "When the next step has its result, Playhead starts to compress steps 1–3," in page
    assert "This costs nothing." in page
    assert not session.compression_due
    append(project, session.pk, [act(), ok()])
    [due] = due_sessions()
    run = compress_if_due(due)
    assert run is not None
    assert (run.from_step, run.to_step) == (1, 3)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [(AUTOMATIC.model_copy(update={"compress_automatically": False}), 4), (AUTOMATIC, 2)],
)
def test_the_lines_name_no_compression_that_the_next_step_does_not_start(
    alice: Client, project: Project, settings: SessionSettings, steps: int
) -> None:
    session = imported(project, settings, steps)
    assert "starts to compress" not in text(alice.get(reverse("connect", args=[session.pk])))
    append(project, session.pk, [act(), ok()])
    assert due_sessions() == []


def test_the_lines_say_what_the_next_context_lacks(alice: Client, project: Project, session: Session) -> None:
    page = text(alice.get(reverse("connect", args=[session.pk])))
    assert "It contains no tools and no system prompt, because this session records none." in page
    append(project, session.pk, [draft(SystemInstruction(text="Be brief."))])
    page = text(alice.get(reverse("connect", args=[session.pk])))
    assert "It contains no tools, because this session records none." in page
    assert "system prompt" not in page


def test_a_fork_says_that_summaries_of_shared_steps_are_shared(alice: Client, project: Project) -> None:
    session = imported(project, AUTOMATIC)
    page = text(alice.get(form(session, "?step=4")))
    assert page.count("Both sessions share the summaries of these steps") == 2
    assert "This session does not change." in text(alice.get(form(session, "?step=1"))), "it shares no step"
    child = continued(alice, session, "fork-after", "4")
    page = text(alice.get(reverse("connect", args=[child.pk])))
    assert "Sessions that share these steps share the summaries." in page
    assert "share these steps" not in text(alice.get(reverse("connect", args=[session.pk])))
