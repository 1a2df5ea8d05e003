"""Summaries in the list and the step: their steps, and replacements written by hand."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from historyapp.models import Project, Session, Summary
from historyapp.models.history import History
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text


def summary_of(session: Session, first: int, last: int, words: str = "in short") -> Summary:
    written = SummaryText(words, strategy="structured", model="local")
    return add_summary(session.project, session.pk, (first, last), written, actor="user:bob")


def form(session: Session, query: str = "") -> str:
    return reverse("write-summary", args=[session.pk]) + query


def marks(client: Client, address: str) -> dict[str, str]:
    """The summary marks of the rows, by step."""
    rows = re.findall(
        r'data-step="(\d+)"(?:(?!</li>).)*class="mark"\s+title="([^"]*)"',
        html(client.get(address)),
        re.DOTALL,
    )
    return dict(rows)


def test_rows_show_which_steps_are_summarised(alice: Client, session: Session) -> None:
    own, range_ = summary_of(session, 1, 1), summary_of(session, 1, 3)
    marked = marks(alice, reverse("session", args=[session.pk]))
    assert sorted(marked) == ["1", "2", "3"]
    assert marked["1"] == f"Summarised: step 1, {own.tokens_before} → {own.tokens_after} tokens"
    assert marked["3"].startswith(f"Summarised: steps 1–3, {range_.tokens_before} →")


def test_a_range_that_ends_beyond_the_rows_marks_them_too(alice: Client, project: Project) -> None:
    long = long_session(project, 200)
    summary_of(long, 40, 150)
    marked = marks(alice, reverse("session", args=[long.pk]) + "?step=60")
    assert sorted(map(int, marked)) == list(range(40, 86))


def test_rows_read_no_texts_of_summaries(alice: Client, session: Session) -> None:
    summary_of(session, 1, 1)
    with CaptureQueriesContext(connection) as captured:
        fragment(alice, reverse("steps", args=[session.pk]) + "?around=1")
    summary_queries = [query["sql"] for query in captured if "historyapp_summary" in query["sql"]]
    assert len(summary_queries) == 1
    assert '"historyapp_summary"."text"' not in summary_queries[0]


def test_rows_show_only_summaries_that_existed_at_the_position(alice: Client, session: Session) -> None:
    before = session.head
    rewind(session.project, session.pk, Target(to_step=4))
    summary_of(session, 1, 2)
    page = reverse("session", args=[session.pk])
    assert sorted(marks(alice, page)) == ["1", "2"]
    assert marks(alice, f"{page}?as_of={before}") == {}


def test_a_step_shows_its_summaries_with_their_strategy(alice: Client, session: Session) -> None:
    summary_of(session, 2, 4, "three files were read")
    page = text(fragment(alice, reverse("step", args=[session.pk, 3])))
    assert "Original Summary" in page
    assert "Summary of steps 2–4" in page
    assert "Table of steps · local summariser ·" in page
    assert "bob" in page
    assert "user:bob" not in page
    assert "three files were read" in page
    assert "Original" not in text(fragment(alice, reverse("step", args=[session.pk, 5])))


def test_an_address_can_select_the_summary(alice: Client, session: Session) -> None:
    summary_of(session, 1, 1)
    checked = r'value="(\w+)" data-shown checked'
    page = reverse("session", args=[session.pk])
    assert re.findall(checked, html(alice.get(page))) == ["original"]
    assert re.findall(checked, html(alice.get(f"{page}?shown=summary"))) == ["summary"]


def test_editing_makes_a_new_summary_and_keeps_the_old(alice: Client, session: Session) -> None:
    old = summary_of(session, 2, 4, "the old words")
    assert "the old words" in html(alice.get(form(session, f"?of={old.pk}")))
    response = alice.post(form(session), {"of": str(old.pk), "text": "better\r\nwords"})
    assert response["Location"] == reverse("session", args=[session.pk]) + "?step=2&shown=summary"
    new = Summary.objects.exclude(pk=old.pk).get()
    assert (new.text, new.strategy, new.actor) == ("better\nwords", "manual", "user:alice")
    assert (new.first_step, new.last_step, new.level) == (2, 4, 2)
    page = text(fragment(alice, reverse("step", args=[session.pk, 3])))
    assert page.index("better words") < page.index("replaced") < page.index("the old words")
    assert "Written by hand" in page
    assert [summary.text for summary in History(session).summaries()] == ["the old words", "better\nwords"]


def test_an_edited_digest_stays_a_digest(alice: Client, session: Session) -> None:
    old = add_summary(session.project, session.pk, (1, 4), SummaryText("a digest", level=3))
    alice.post(form(session), {"of": str(old.pk), "text": "a better digest"})
    assert Summary.objects.get(text="a better digest").level == 3


def test_a_step_without_a_summary_gets_one_by_hand(alice: Client, session: Session) -> None:
    link = form(session, "?first=5&last=5").replace("&", "&amp;")
    assert link in html(fragment(alice, reverse("step", args=[session.pk, 5])))
    alice.post(form(session), {"first": "5", "last": "5", "text": "read the fifth file"})
    assert Summary.objects.get().level == 1


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"first": "1", "last": "1", "text": " "}, 422, "Enter the text of the summary."),
        ({"first": "1", "last": "1", "text": "x" * 100_001}, 422, "A summary has at most 100,000 characters"),
        ({"text": "x"}, 422, "Enter the first and the last step that the summary covers"),
        ({"first": "1", "last": "9", "text": "x"}, 422, "There is no step 9."),
        ({"first": "9", "last": "9", "text": "x"}, 404, "There is no step 9."),
        ({"of": "zzz", "text": "x"}, 404, "There is no such summary"),
    ],
)
def test_an_invalid_summary_is_refused(
    alice: Client, session: Session, fields: dict[str, str], status: int, sentence: str
) -> None:
    response = alice.post(form(session), fields)
    assert response.status_code == status
    assert sentence in text(response)
    assert not Summary.objects.exists()


def test_a_summary_that_is_not_live_here_is_not_found(
    alice: Client, project: Project, session: Session
) -> None:
    cut = summary_of(session, 5, 5)
    rewind(project, session.pk, Target(to_step=4))
    assert alice.get(form(session, f"?of={cut.pk}")).status_code == 404
    elsewhere = summary_of(long_session(project, 3), 1, 1)
    assert alice.get(form(session, f"?of={elsewhere.pk}")).status_code == 404


def test_a_fork_can_edit_shared_summaries(alice: Client, project: Project, session: Session) -> None:
    old = summary_of(session, 1, 2)
    child = fork(project, session.pk, at_step=3)
    alice.post(form(child), {"of": str(old.pk), "text": "seen from the fork"})
    assert Summary.objects.get(text="seen from the fork").made_in_id == child.pk


def test_summaries_at_an_earlier_position_cannot_be_edited(alice: Client, session: Session) -> None:
    summary_of(session, 1, 1)
    past = reverse("step", args=[session.pk, 1]) + f"?as_of={session.head}"
    assert "Summary of step 1" in text(fragment(alice, past))
    assert form(session) not in html(fragment(alice, past))


def test_the_dialog_gets_only_the_form(alice: Client, session: Session) -> None:
    dialog = html(fragment(alice, form(session, "?first=1&last=2")))
    assert dialog.startswith('<div class="compress">')
    assert "Summary of steps 1–2" in text(fragment(alice, form(session, "?first=1&last=2")))


def test_an_empty_session_has_no_step_to_summarise(alice: Client, project: Project) -> None:
    assert alice.get(form(create_session(project), "?first=1&last=1")).status_code == 404
