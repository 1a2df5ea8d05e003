"""Bookmarks and notes on the pages of a session."""

from typing import Any

from django.test import Client

from dashboard.rendering.line_breaks import MAX_JOINED
from historyapp.models import Project, Session, StepNote
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, rewind
from tests.dashboard.pages import fragment, html, text


def save(client: Client, session: Session, number: int, **fields: str) -> Any:
    return client.post(f"/sessions/{session.pk}/steps/{number}/note", fields)


def test_a_note_is_saved_by_a_form_and_shown_in_its_step_and_in_the_list(
    alice: Client, session: Session
) -> None:
    response = save(alice, session, 3, text=" Why this file?\r\nAsk. ")
    assert response.headers["Location"] == f"/sessions/{session.pk}?step=3"
    note = StepNote.objects.get()
    assert (note.number, note.text, note.actor) == (3, "Why this file?\nAsk.", "user:alice")
    page = html(alice.get(f"/sessions/{session.pk}?step=3"))
    assert "Why this file?\nAsk." in page
    assert page.count("bookmark-3") == 1
    assert "Why this file" not in text(fragment(alice, f"/sessions/{session.pk}/steps/2"))


def test_htmx_gets_the_note_and_the_mark_of_its_row(alice: Client, session: Session) -> None:
    address = f"/sessions/{session.pk}/steps/2/note"
    saved = html(alice.post(address, {"text": "x"}, headers={"hx-request": "true"}))
    assert 'data-note-step="2"' in saved
    assert "bookmark-2" in saved.partition("<template data-note-mark>")[2]
    deleted = html(alice.post(address, {"delete": "1"}, headers={"hx-request": "true"}))
    assert "data-note-mark" not in deleted
    assert not StepNote.objects.exists()


def test_a_note_that_somebody_else_deleted_can_be_deleted(alice: Client, session: Session) -> None:
    assert save(alice, session, 1, delete="1").status_code == 302


def test_a_note_is_escaped(alice: Client, session: Session) -> None:
    save(alice, session, 1, text='<script>alert("x")</script>')
    page = html(alice.get(f"/sessions/{session.pk}?step=1"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_browser_lays_out_a_long_note_in_pieces(alice: Client, session: Session) -> None:
    put_note(session.project, session.pk, 1, "a" + 1000 * "\u0301")
    assert html(alice.get(f"/sessions/{session.pk}?step=1")).count("\u0301<wbr>\u0301") == 1000 // MAX_JOINED


def test_a_note_that_is_too_long_says_so(alice: Client, session: Session) -> None:
    response = save(alice, session, 1, text="x" * 10_001)
    assert response.status_code >= 400
    assert "at most 10,000 characters" in text(response)


def test_a_member_can_see_and_change_notes_and_a_stranger_cannot(
    alice: Client, bob: Client, charlie: Client, session: Session
) -> None:
    save(alice, session, 1, text="first")
    assert "first" in text(bob.get(f"/sessions/{session.pk}?step=1"))
    save(bob, session, 1, text="second")
    assert StepNote.objects.get().actor == "user:bob"
    assert save(charlie, session, 1, text="third").status_code == 404


def test_the_list_can_show_only_noted_steps(alice: Client, project: Project, session: Session) -> None:
    for number in (2, 4):
        put_note(project, session.pk, number)
    page = html(alice.get(f"/sessions/{session.pk}?noted=1&step=3"))
    assert [
        number for number in range(1, 6) if f'data-step="{number}"' in page.partition('id="rows"')[2]
    ] == [2, 4]
    assert 'name="noted" value="1" checked' in page
    put_note(project, session.pk, 3)
    both = html(alice.get(f"/sessions/{session.pk}?noted=1&status=error"))
    assert both.partition('id="rows"')[2].count("data-step=") == 1


def test_a_rewind_moves_a_note_with_its_step_into_the_take(
    alice: Client, project: Project, session: Session
) -> None:
    put_note(project, session.pk, 5, "went wrong here")
    position = rewind(project, session.pk, Target(to_step=4)).position
    assert "bookmark-5" not in html(alice.get(f"/sessions/{session.pk}?step=4"))
    assert "bookmark-5" in html(fragment(alice, f"/sessions/{session.pk}/takes/{position}"))
    assert "went wrong here" in text(alice.get(f"/sessions/{session.pk}?step=5&as_of={position - 1}"))
