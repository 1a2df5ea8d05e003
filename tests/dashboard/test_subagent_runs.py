"""Runs whose sub-agents did the work: their pages say what the sub-agents did, and lead there."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from historyapp.core.entries import ModelOutput
from historyapp.models import Episode, Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, failed, ok

START = datetime(2026, 1, 31, 9, tzinfo=UTC)
USAGE = {"input_tokens": 1_000_000, "output_tokens": 1}


def agent(project: Project, minute: int, *statuses: str, model: str = "claude-opus-4-5") -> Session:
    """A session that began at a minute, with a step for each status, and then an answer that cost money."""
    session = create_session(project, names={"model": model})
    drafts = [ask("go")]
    for status in statuses:
        drafts += [act("read_file", path="a.py"), failed() if status == "error" else ok()]
    drafts.append(draft(ModelOutput(text="Done."), usage=USAGE))
    append(
        project, session.pk, [each._replace(created_at=START + timedelta(minutes=minute)) for each in drafts]
    )
    return session


Family = tuple[Session, Session, Session, Session]


@pytest.fixture
def family(project: Project) -> Family:
    """A run without failures, and the sub-agents that its steps 1, 2 and 2 started."""
    parent = create_session(project, names={"model": "claude-opus-4-5"})
    calls = [ask("go"), act("Task"), ok(), act("Task"), ok(), draft(ModelOutput(text="Done."), usage=USAGE)]
    append(project, parent.pk, calls)
    children = (
        agent(project, 1, "ok"),
        agent(project, 5, "error", "error"),
        agent(project, 3, "ok", "error"),
    )
    for child, position in zip(children, (2, 4, 4), strict=True):
        Session.objects.filter(pk=child.pk).update(spawned_by=parent, spawned_position=position)
        child.refresh_from_db()
    return parent, *children


def test_the_overview_says_how_many_subagents_failed_and_leads_to_their_failures(
    alice: Client, family: Family
) -> None:
    parent, clean, first, second = family
    page = alice.get(f"/sessions/{parent.pk}/overview")
    assert "2 of 3 sub-agents had 3 errors list · step 2" in text(page)
    for child in (first, second):
        assert f'href="/sessions/{child.pk}/jump?to=first-error" title=' in html(page)
    assert f"/sessions/{clean.pk}/jump" not in html(page)
    assert "2026-01-31 09:05:00 UTC" in text(page), "when a sub-agent started"
    jump = alice.get(f"/sessions/{second.pk}/jump?to=first-error")
    assert jump["Location"] == f"/sessions/{second.pk}?step=2#failure"
    assert alice.get(f"/sessions/{first.pk}/jump?to=first-error")["Location"].endswith("?step=1#failure")


def test_e_on_the_overview_of_a_clean_run_opens_the_first_failure_of_a_subagent(
    alice: Client, family: Family
) -> None:
    parent, _, first, second = family
    opens = 'data-href="/sessions/{}/jump?to=first-error"'
    assert opens.format(second.pk) in html(alice.get(f"/sessions/{parent.pk}/overview"))
    Episode.objects.filter(session=second, status="error").update(finished_at=START + timedelta(minutes=9))
    page = html(alice.get(f"/sessions/{parent.pk}/overview"))
    assert opens.format(first.pk) in page, "the one that failed first, although the other began first"
    rewind(second.project, second.pk, Target(to_step=1))
    append(second.project, second.pk, [each._replace(created_at=START) for each in (act("ls"), failed())])
    assert opens.format(second.pk) in html(alice.get(f"/sessions/{parent.pk}/overview")), "after a rewind"


def test_e_in_a_clean_run_says_that_subagents_failed(alice: Client, family: Family) -> None:
    parent = family[0]
    reason = fragment(alice, f"/sessions/{parent.pk}/jump?step=1&to=next-error").json()["reason"]
    assert reason.endswith("2 of 3 sub-agents had failures: see Sub-agents.")
    page = text(alice.get(f"/sessions/{parent.pk}"))
    assert "First failure: 2 errors" in page, "in the menu of sub-agents"
    assert page.count("First failure: ") == 2


def test_the_step_list_leads_to_the_likely_failures_of_a_subagent(alice: Client, family: Family) -> None:
    parent, _, child, _ = family
    assert f"/sessions/{child.pk}/jump?to=first-error" in step_list(alice, parent)
    Session.objects.filter(pk=child.pk).update(errors=0, likely_failures=2)
    assert f"/sessions/{child.pk}/jump?to=first-error" in step_list(alice, parent)
    assert "<em>2 likely failed</em>" in step_list(alice, parent)
    Session.objects.filter(pk=child.pk).update(likely_failures=0)
    assert f"/sessions/{child.pk}/jump?to=first-error" not in step_list(alice, parent)


def step_list(client: Client, session: Session) -> str:
    return html(client.get(f"/sessions/{session.pk}")).partition('id="rows"')[2]


@pytest.mark.parametrize(
    ("model", "shown", "total"),
    [
        ("claude-opus-4-5", "3 sub-agents , not included $15.00", "$20.00 with them"),
        ("of-nobody", "3 sub-agents , not included unknown", "at least $5.00 with them"),
    ],
)
def test_the_cost_tab_and_the_head_say_what_the_subagents_cost(
    alice: Client, family: Family, model: str, shown: str, total: str
) -> None:
    parent = family[0]
    Session.objects.filter(spawned_by=parent).update(model=model)
    overview = text(alice.get(f"/sessions/{parent.pk}/overview"))
    assert shown in overview
    assert total in overview
    ledger = text(fragment(alice, f"/sessions/{parent.pk}/ledger?step=1"))
    assert shown in ledger


def test_cost_and_files_name_the_subagents_without_a_session(alice: Client, project: Project) -> None:
    """Calls that failed or that continue an earlier sub-agent started none."""
    parent = create_session(project, names={"model": "claude-opus-4-5"})
    calls = [act("Task"), ok(), act("Task"), failed(), act("Task", resume="a1"), ok(), act("Agent"), ok()]
    append(project, parent.pk, [ask("go"), *calls, draft(ModelOutput(text="Done."), usage=USAGE)])
    copy, missing = fork(project, parent.pk), "2 sub-agents (steps 1 , 4 ) without a session in Playhead"
    for session in (parent, copy):
        overview = text(alice.get(f"/sessions/{session.pk}/overview"))
        assert f"{missing}, not included unknown" in overview
        assert f"The files of {missing} are unknown." in overview
        assert missing in text(fragment(alice, f"/sessions/{session.pk}/ledger?step=1"))
    child = agent(project, 1, "ok")
    Session.objects.filter(pk=child.pk).update(spawned_by=parent, spawned_position=2)
    for session in (parent, copy):
        overview = text(alice.get(f"/sessions/{session.pk}/overview"))
        assert "1 sub-agent without a session in Playhead, not included unknown" in overview
    other = agent(project, 1, "ok")
    Session.objects.filter(pk=other.pk).update(spawned_by=parent)
    assert "without a session" not in text(alice.get(f"/sessions/{parent.pk}/overview"))


def test_the_cost_tab_lists_the_tools_with_the_tokens_of_their_results(alice: Client, family: Family) -> None:
    ledger = text(fragment(alice, f"/sessions/{family[1].pk}/ledger?step=1"))
    assert "Tool Calls Failed Tokens of results read_file 1 0 " in ledger


def test_continuing_a_subagent_says_that_its_parent_will_not_know(alice: Client, family: Family) -> None:
    parent, _, child, _ = family
    forked = fork(child.project, child.pk, at_step=1)
    again = fork(child.project, fork(child.project, forked.pk, at_step=1).pk, at_step=1)
    for address in (
        f"/sessions/{child.pk}/continue?step=1",
        f"/sessions/{child.pk}/connect",
        f"/sessions/{forked.pk}/connect",
        f"/sessions/{again.pk}/connect",
    ):
        page = alice.get(address)
        assert "does not reach the session that started the sub-agent" in text(page)
        assert f'href="/sessions/{parent.pk}/continue?step=2"' in html(page)
    assert "does not reach" not in text(alice.get(f"/sessions/{parent.pk}/continue?step=1"))
