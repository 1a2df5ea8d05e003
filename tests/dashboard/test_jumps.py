"""Jumps: addresses that redirect to the next step of a kind, and answer scripts with its number."""

import pytest
from django.test import Client

from dashboard.jumps import JUMPS
from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall
from historyapp.models import Project, Session, StaleOutcomes
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, draft, failed, ok, tool_calls


def address(session: Session, query: str) -> str:
    return f"/sessions/{session.pk}/jump?{query}"


def test_a_jump_redirects_and_keeps_the_other_parts_of_the_address(alice: Client, session: Session) -> None:
    response = alice.get(address(session, "step=1&to=next-error&find=text&as_of=11"))
    assert response.status_code == 302
    assert response["Location"] == f"/sessions/{session.pk}?step=3&as_of=11&find=text#failure"


def test_failures_lead_to_the_result_that_failed(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [tool_calls("a", "b", "c"), ok("a"), failed("b"), failed("c")])
    assert "?step=1#failure" in html(alice.get(f"/sessions/{session.pk}/overview"))
    _, *calls = html(alice.get(f"/sessions/{session.pk}?step=1")).split('<section class="part action')
    assert ['id="failure"' in tool_call for tool_call in calls] == [False, True, False]


@pytest.mark.parametrize(("second", "leads_to"), [(ok("b"), 0), (failed("b", "No rule to make it"), 1)])
def test_a_search_without_a_match_is_where_a_failure_leads_only_if_no_other_call_failed(
    alice: Client, project: Project, second: EntryDraft, leads_to: int
) -> None:
    session = create_session(project)
    lines = {"a": "grep -n x a.py", "b": "make"}
    calls = tuple(ToolCall(id=id, name="bash", arguments={"command": line}) for id, line in lines.items())
    append(project, session.pk, [draft(ModelOutput(tool_calls=calls)), failed("a", "Exit code 1"), second])
    _, *shown = html(alice.get(f"/sessions/{session.pk}?step=1")).split('<section class="part action')
    assert "not a failure" in shown[0]
    assert ['id="failure"' in tool_call for tool_call in shown] == [leads_to == 0, leads_to == 1]


def test_scripts_get_only_the_number(alice: Client, session: Session) -> None:
    response = fragment(alice, address(session, "step=5&to=previous-error"))
    assert response.json() == {"step": 3, "searched_to": None, "reason": ""}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("step=4&to=next-error", "There is no later step that failed or likely failed."),
        ("step=4&to=next-error&status=error", "There is no later step that ended in an error."),
        ("step=1&to=previous-turn", "There is no earlier input from a person."),
        ("step=2&to=next-edit", "Step 2 edits no file."),
        ("step=2&to=next-take", "There is no later take."),
        ("step=2&to=previous-compaction", "There is no earlier compaction by the agent."),
    ],
)
def test_a_jump_without_a_target_gives_the_reason(
    alice: Client, session: Session, query: str, reason: str
) -> None:
    assert fragment(alice, address(session, query)).json()["reason"] == reason
    page = alice.get(address(session, query))
    assert page.status_code == 404
    assert reason in html(page)


def test_the_jump_to_the_first_error_is_named_among_the_jumps_and_is_not_later_than_a_step(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    append(project, session.pk, [answer()])
    jump = fragment(alice, address(session, "to=first-error")).json()
    assert jump["reason"] == "There is no step that failed or likely failed."
    assert "previous-take, first-error." in text(alice.get(address(session, "to=third-error")))


def test_a_jump_to_errors_includes_likely_ones_unless_only_reported_ones_are_listed(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    drafts = [act("ls"), ok(), act("bash", command="make"), ok(outputs="make: *** [all] Error 2"), answer()]
    append(project, session.pk, drafts)
    for start, direction in ((1, "next"), (3, "previous")):
        jump = address(session, f"step={start}&to={direction}-error")
        assert fragment(alice, jump).json()["step"] == 2
        assert fragment(alice, f"{jump}&status=error").json()["step"] is None


def test_scripts_learn_when_the_turn_ended(alice: Client, session: Session) -> None:
    newest = session.last_entry_at
    assert newest is not None
    jump = fragment(alice, address(session, "step=1&to=next-turn")).json()
    assert jump["ended"] == round(newest.timestamp() * 1000)


def test_an_unknown_jump_names_the_known_ones(alice: Client, session: Session) -> None:
    page = alice.get(address(session, "step=1&to=next-dream"))
    assert page.status_code == 422
    assert all(name in html(page) for name in JUMPS)


def test_a_session_without_steps_has_no_jumps(alice: Client, project: Project) -> None:
    session = create_session(project)
    jump = fragment(alice, address(session, "to=next-error")).json()
    assert jump["reason"] == "The session has no steps yet."


def test_a_stranger_gets_404(charlie: Client, session: Session) -> None:
    assert charlie.get(address(session, "step=1&to=next-error")).status_code == 404


def test_the_page_does_not_deny_likely_failures_while_they_are_computed(
    alice: Client, session: Session
) -> None:
    page, jump = f"/sessions/{session.pk}?step=4", address(session, "step=4&to=next-error")
    assert 'data-later-failure="no"' in html(alice.get(page))
    StaleOutcomes.objects.create(session=session)
    shown = html(alice.get(page))
    assert 'data-later-failure="yes"' in shown
    assert "likely failed <small>counting" in " ".join(shown.split())
    assert 'data-later-failure="no"' in html(alice.get(f"{page}&status=error"))
    reason = fragment(alice, jump).json()["reason"]
    assert reason.endswith("likely failed is known yet: a worker is still looking.")
    assert fragment(alice, f"{jump}&status=error").json()["reason"].endswith("ended in an error.")
