"""Continuing from a step: fork before or after it, or rewind to before it; then lines to continue with."""

import re
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import change_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, ok


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
    assert re.search(r"The next request ends with the result of step 3:\s*<q[^>]*>Action failed", page)
    assert ">text 4</q>" in page
    assert f'href="{reverse("session", args=[session.pk])}?as_of=7&amp;step=-1&amp;mode=what_if"' in page
    shown = alice.get(reverse("session", args=[session.pk]) + "?as_of=7&step=-1&mode=what_if").context
    assert (shown["location"].step, shown["options"].mode) == (3, "what_if")


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


def test_the_lines_name_the_server_and_the_session(alice: Client, session: Session) -> None:
    page = text(alice.get(reverse("connect", args=[session.pk])))
    assert f"export PLAYHEAD=http://testserver/api/v1 export KEY=ph_… export SESSION={session.pk}" in page
    assert f'"expected_position": {session.head}' in page
