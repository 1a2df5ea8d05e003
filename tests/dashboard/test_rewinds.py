"""Rewinding shows first what it cuts off, works without scripts, and can be undone."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.views.rewinds import DISMISSED, KEPT
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, ok


def form(session: Session, query: str = "") -> str:
    return reverse("rewind", args=[session.pk]) + query


def steps(session: Session) -> int:
    session.refresh_from_db()
    return History(session).steps


def test_the_form_shows_exactly_what_is_cut_off(alice: Client, session: Session) -> None:
    page = text(alice.get(form(session, "?step=2")))
    assert "This cuts off steps 3–5: 3 steps, 6 entries. Step 2 stays: to let the model try it again," in page
    assert steps(session) == 5


def test_a_negative_step_counts_from_the_end(alice: Client, session: Session) -> None:
    assert "This cuts off step 5: 1 step, 2 entries." in text(alice.get(form(session, "?step=-2")))


def test_everything_can_be_cut_off(alice: Client, session: Session) -> None:
    shown = text(alice.get(form(session, "?step=0")))
    assert "This cuts off steps 1–5: 5 steps, 10 entries. Nothing is deleted" in shown
    alice.post(form(session), {"step": "0"})
    assert steps(session) == 0
    page = alice.get(reverse("session", args=[session.pk]))
    assert "Take: 5 steps" in text(page)
    assert reverse("undo", args=[session.pk, 12]) in html(page)


def test_after_the_newest_step_only_inputs_are_cut_off(
    alice: Client, project: Project, session: Session
) -> None:
    assert "The session has no entries after step 5" in text(alice.get(form(session, "?step=5")))
    append(project, session.pk, [ask("wait")])
    assert "This cuts off 1 entry after step 5, but no whole step." in text(
        alice.get(form(session, "?step=5"))
    )


def test_a_step_that_does_not_exist_is_a_422(alice: Client, session: Session) -> None:
    assert alice.get(form(session, "?step=6")).status_code == 422
    assert alice.post(form(session), {"step": "6"}).status_code == 422
    assert steps(session) == 5


@pytest.mark.parametrize("fields", [{}, {"step": ""}, {"step": " ", "reason": "all of it"}])
def test_without_a_step_nothing_is_rewound(alice: Client, session: Session, fields: dict[str, str]) -> None:
    response = alice.post(form(session, "?step=2"), fields)
    assert response.status_code == 422
    assert "Choose the step to continue after." in text(response)
    assert steps(session) == 5


def test_sending_the_unchanged_form_rewinds(alice: Client, session: Session) -> None:
    page = html(alice.get(form(session, "?step=2")))
    post = page[page.index('method="post" action="' + form(session)) :]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', post[: post.index("</form>")]))
    response = alice.post(form(session), {**fields, "reason": "the wrong way"})
    assert response["Location"] == reverse("session", args=[session.pk]) + "?step=2"
    assert steps(session) == 2
    assert "“ the wrong way ”" in text(alice.get(response["Location"]))


def test_entries_appended_meanwhile_are_not_cut_off_unseen(
    alice: Client, project: Project, session: Session
) -> None:
    seen = session.head
    append(project, session.pk, [act(), ok()])
    response = alice.post(form(session), {"step": "2", "expected_position": seen})
    assert response.status_code == 409
    assert "Read what has been appended since" in text(response)
    assert steps(session) == 6


def test_the_dialog_gets_only_the_form(alice: Client, session: Session) -> None:
    dialog = html(fragment(alice, form(session, "?step=2")))
    assert dialog.startswith('<div class="rewind">')


def test_undo_restores_at_once(alice: Client, project: Project, session: Session) -> None:
    rewound = rewind(project, session.pk, Target(to_step=2))
    response = alice.post(reverse("undo", args=[session.pk, rewound.position]))
    assert response["Location"] == reverse("session", args=[session.pk]) + "?step=5"
    assert steps(session) == 5


def test_undoing_an_older_rewind_shows_first_what_it_cuts_off(
    alice: Client, project: Project, session: Session
) -> None:
    rewound = rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act(), ok()])
    address = reverse("undo", args=[session.pk, rewound.position])
    page = text(alice.get(address))
    assert "This restores 6 entries. The session then continues after step 5" in page
    assert "This cuts off 2 entries recorded since the rewind" in page
    assert steps(session) == 3
    alice.post(address)
    assert steps(session) == 5


def test_the_bar_about_a_rewind_can_be_dismissed_for_good(
    alice: Client, bob: Client, project: Project, session: Session
) -> None:
    rewound = rewind(project, session.pk, Target(to_step=2))
    page = reverse("session", args=[session.pk])
    dismiss = reverse("dismiss", args=[session.pk, rewound.position])
    assert dismiss in html(alice.get(page))
    assert alice.post(f"{dismiss}?step=2")["Location"] == f"{page}?step=2"
    assert "Rewound:" not in text(alice.get(page))
    assert "Rewound:" in text(bob.get(page))
    assert reverse("undo", args=[session.pk, rewound.position]) in html(alice.get(page))
    rewind(project, session.pk, Target(to_step=1))
    assert "Rewound: 1 step cut off" in text(alice.get(page))


def test_a_dismissed_bar_disappears_without_a_new_page(
    alice: Client, project: Project, session: Session
) -> None:
    rewound = rewind(project, session.pk, Target(to_step=2))
    address = reverse("dismiss", args=[session.pk, rewound.position])
    response = alice.post(address, headers={"hx-request": "true"})
    assert (response.status_code, response.content) == (200, b"")


def test_the_number_of_stored_dismissals_of_a_person_is_bounded(alice: Client, session: Session) -> None:
    for position in range(1, KEPT + 5):
        alice.post(reverse("dismiss", args=[session.pk, position]))
    assert len(alice.session[DISMISSED]) == KEPT


def test_a_rewind_is_undone_once(alice: Client, project: Project, session: Session) -> None:
    rewound = rewind(project, session.pk, Target(to_step=2))
    address = reverse("undo", args=[session.pk, rewound.position])
    alice.post(address)
    assert alice.post(address).status_code == 409
    assert alice.get(address).status_code == 409


def test_an_entry_that_is_not_a_rewind_cannot_be_undone(alice: Client, session: Session) -> None:
    assert alice.post(reverse("undo", args=[session.pk, 3])).status_code == 404
    assert alice.post(reverse("undo", args=[session.pk, 10**12])).status_code == 404


def test_undoing_to_an_empty_history_redirects_to_the_empty_session(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=0))
    restored = rewind(project, session.pk, Target(to_position=5))
    response = alice.post(reverse("undo", args=[session.pk, restored.position]))
    assert alice.get(response["Location"]).status_code == 200
    assert steps(session) == 0
