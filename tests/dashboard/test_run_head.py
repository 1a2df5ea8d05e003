"""How a run ended, its time and its files in the head of a session's pages."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.templatetags.overview import rough_time
from historyapp.core.entries import DebugLog
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, draft, ok

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def timed(project: Project) -> Session:
    """A finished run with a model call of 5 min, a tool call of 12 s and an answer after another 2 min."""
    session = create_session(project)
    drafts = [ask("Repair it."), act("read_file", path="a.py"), ok(), answer()]
    moments = (0, 300, 312, 432)
    timed = [
        draft._replace(created_at=BEGIN + timedelta(seconds=moment))
        for draft, moment in zip(drafts, moments, strict=True)
    ]
    append(project, session.pk, timed)
    change_session(project, session.pk, {"status": "finished"})
    return session


def test_the_head_says_how_the_run_ended_and_what_its_time_was_spent_on(
    alice: Client, timed: Session
) -> None:
    head = "7 min 12 s (model 7 min, tools 12 s)"
    part = text(fragment(alice, reverse("run-head", args=[timed.pk])))
    assert f"{head} ended with an answer 1" in part
    overview = text(alice.get(reverse("overview", args=[timed.pk])))
    assert head in overview
    assert "Files 1" in overview


def test_the_parts_of_the_time_add_up_to_the_figure_above_them(alice: Client, project: Project) -> None:
    """Also if records of the agent's program precede the run, and if calls have no result."""
    session, hook = create_session(project), draft(DebugLog(category="hook", message="…"))
    drafts = [hook, ask("Go."), act(), ok(), hook, act(), ask("And?"), hook]
    moments = (0, 36_000, 36_060, 36_090, 36_100, 36_120, 39_720, 46_920)
    append(
        project,
        session.pk,
        [
            each._replace(created_at=BEGIN + timedelta(seconds=s))
            for each, s in zip(drafts, moments, strict=True)
        ],
    )
    change_session(project, session.pk, {"status": "finished"})
    head = "1 h 2 min in 13 h 2 min (model 2 min, tools 30 s, no result 1 h)"
    words = text(alice.get(reverse("overview", args=[session.pk])))
    assert head in words
    assert "calls without a result 1 h 0 min From the first to the newest entry it is 13 h 2 min" in words
    assert "12 h 0 min before or after the conversation do not count here" in words
    assert "ended with an input after a call without a result" in words
    assert "1 turn of a person and an input without a step" in words


@pytest.mark.parametrize("page", ["session", "ledger", "session-settings"])
def test_other_pages_load_it(alice: Client, timed: Session, page: str) -> None:
    assert f'hx-get="{reverse("run-head", args=[timed.pk])}"' in html(
        alice.get(reverse(page, args=[timed.pk]))
    )


def test_an_input_after_the_answer_is_not_answered_in_a_fork_and_after_the_end(
    alice: Client, project: Project, timed: Session
) -> None:
    append(project, timed.pk, [ask("Now the tests.")])
    copy = fork(project, timed.pk, at_position=5)
    change_session(project, timed.pk, {"status": "finished"})
    for session in (timed, copy):
        assert "ended with an input that the agent did not answer" in text(
            fragment(alice, reverse("run-head", args=[session.pk]))
        )
    page = alice.get("/", {"folded": "0", "q": "-title:x"})
    assert (
        re.findall(r'title="ended with ([^"]*)">', html(page))
        == ["an input that the agent did not answer"] * 2
    )
    append(project, copy.pk, [answer()])
    assert "ended with an answer" in text(fragment(alice, reverse("run-head", args=[copy.pk])))


def test_a_running_agent_has_no_ending_in_the_head(alice: Client, session: Session) -> None:
    part = html(fragment(alice, reverse("run-head", args=[session.pk])))
    assert " hidden>running</a>" in part


def test_a_session_without_steps_has_no_figures_in_the_head(alice: Client, project: Project) -> None:
    session = create_session(project)
    assert fragment(alice, reverse("run-head", args=[session.pk])).status_code == 204
    assert "run-head" not in html(alice.get(reverse("session", args=[session.pk])))


def test_sub_agents_have_a_tab_with_their_number(alice: Client, project: Project, session: Session) -> None:
    page = reverse("session", args=[session.pk])
    assert "Sub-agents" not in text(alice.get(page)).partition("Cost")[0]
    create_session(project, names={"title": "helper"})
    Session.objects.filter(title="helper").update(spawned_by=session)
    assert "Sub-agents 1" in text(alice.get(page))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (6.7, "6.7 s"),
        (23, "23 s"),
        (59.6, "1 min"),
        (563, "9 min"),
        (16_800, "4.7 h"),
        (3_600, "1 h"),
        (400_000, "5 days"),
    ],
)
def test_a_rough_time_has_one_unit(seconds: float, words: str) -> None:
    assert rough_time(round(1_000 * seconds)) == words


def test_edits_that_name_no_file_are_counted_beside_the_files(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("go"), *[each for _ in "ab" for each in (act("apply_patch"), ok())]])
    overview = text(alice.get(reverse("overview", args=[session.pk])))
    assert "Files 0+" in overview
    assert "2 edits do not say which files changed: steps 1 , 2" in overview
    assert "No tool call names a file" not in overview
    empty = create_session(project)
    append(project, empty.pk, [ask("go"), answer()])
    overview = text(alice.get(reverse("overview", args=[empty.pk])))
    assert "Files 0 " in overview
    assert "No tool call names a file" in overview
