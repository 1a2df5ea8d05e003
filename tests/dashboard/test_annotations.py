"""Tags, note and score of a session, in its row of the list and in the head of its pages."""

from typing import Any

from django.test import Client

from historyapp.models import Annotation, Project, Session
from historyapp.services.sessions import change_session
from tests.dashboard.pages import fragment, html, text


def address(session: Session) -> str:
    return f"/sessions/{session.pk}/annotation"


def save(client: Client, session: Session, **fields: Any) -> Any:
    read = {"read_note": "", "read_score": "", "read_score_name": ""}
    return client.post(address(session), {**read, **fields})


def test_a_form_saves_and_redirects_back(alice: Client, session: Session) -> None:
    saved = save(
        alice, session, new_tags="to  read, , slow", note=" Why?\r\nAsk. ", score="0,75", next="/?q=x"
    )
    assert saved.headers["Location"] == "/?q=x"
    annotation = Annotation.objects.get()
    assert (annotation.note, annotation.score, annotation.noted_by) == ("Why?\nAsk.", 0.75, "user:alice")
    session.refresh_from_db()
    assert session.tags == ["to read", "slow"]
    for page in ("/", f"/sessions/{session.pk}", f"/sessions/{session.pk}/overview"):
        shown = text(alice.get(page))
        assert "to read" in shown
        assert "0.75" in shown
        assert "Why? Ask." in shown


def test_an_empty_box_removes_a_tag_and_leaves_those_of_others(
    alice: Client, project: Project, session: Session
) -> None:
    change_session(project, session.pk, {"tags": ["a", "b", "added meanwhile"]})
    save(alice, session, shown_tag=["a", "b"], tag=["b"], new_tags="c")
    session.refresh_from_db()
    assert session.tags == ["b", "added meanwhile", "c"]


def test_unedited_fields_are_not_written(alice: Client, project: Project, session: Session) -> None:
    change_session(project, session.pk, {"note": "old", "score": 3.0})
    form = {"read_note": "old", "note": "old", "read_score": "3", "score": "4"}
    change_session(project, session.pk, {"note": "new"}, actor="user:bob")
    save(alice, session, **form)
    annotation = Annotation.objects.get()
    assert (annotation.note, annotation.noted_by, annotation.score) == ("new", "user:bob", 4.0)
    revision = Session.objects.get().revision
    save(alice, session, read_note="new", note="new", read_score="4", score="4")
    assert Session.objects.get().revision == revision


def test_a_concurrent_note_is_refused_and_both_texts_are_kept(
    alice: Client, bob: Client, session: Session
) -> None:
    save(bob, session, note="Bob's")
    refused = save(alice, session, note="Alice's", new_tags="x")
    assert refused.status_code == 409
    assert "Somebody else has changed this session" in text(refused)
    assert "Bob&#x27;s" in html(refused)
    assert "Alice&#x27;s</textarea>" in html(refused)
    assert 'name="new_tags" value="x"' in html(refused)
    assert Annotation.objects.get().note == "Bob's"
    assert Session.objects.get().tags == []
    again = save(alice, session, read_note="Bob's", note="Alice's", new_tags="x")
    assert again.status_code == 302
    assert Annotation.objects.get().note == "Alice's"


def test_htmx_gets_the_form_and_the_parts_to_replace(alice: Client, session: Session) -> None:
    form = html(fragment(alice, address(session)))
    assert form.lstrip().startswith('<form class="annotation-form"')
    headers = {"hx-request": "true"}
    saved = html(alice.post(address(session), {"note": "n", "read_note": ""}, headers=headers))
    assert "<form" not in saved
    assert "<bdi>n</bdi>" in saved
    assert "<bdi>n</bdi>" in html(fragment(alice, f"{address(session)}?shown=1"))
    conflict = alice.post(address(session), {"note": "m", "read_note": ""}, headers=headers)
    assert conflict.status_code == 200
    assert 'role="alert"' in html(conflict)


def test_an_invalid_form_is_refused_with_the_reason(alice: Client, session: Session) -> None:
    assert "at most 2,000 characters" in text(save(alice, session, note="x" * 2_001))
    assert "not a number" in text(save(alice, session, score="good"))
    assert "A score is a number" in text(save(alice, session, score="nan"))
    assert "at most 50 tags" in text(save(alice, session, new_tags=",".join(f"t{n}" for n in range(51))))
    assert "at most 100 characters" in text(save(alice, session, new_tags="x" * 101))
    assert not Annotation.objects.exists()


def test_a_note_is_escaped(alice: Client, session: Session) -> None:
    save(
        alice,
        session,
        note='</textarea><script>alert("x")</script>',
        new_tags='"><u>',
        score_name="<em>x",
        score="1",
    )
    for page in ("/", f"/sessions/{session.pk}", address(session)):
        shown = html(alice.get(page))
        assert "<script>alert" not in shown
        assert '"><u>' not in shown
        assert "<em>x" not in shown


def test_members_can_see_and_change_annotations_and_strangers_cannot(
    bob: Client, charlie: Client, session: Session
) -> None:
    assert save(bob, session, note="n").status_code == 302
    assert save(charlie, session, note="m", read_note="n").status_code == 404
    assert charlie.get(address(session)).status_code == 404
    assert Annotation.objects.get().note == "n"
    assert "sign-in" in Client().get(address(session)).headers["Location"]


def test_a_form_redirects_to_no_other_site(alice: Client, session: Session) -> None:
    assert save(alice, session, note="n", next="https://example.org/").headers["Location"] == "/"


def test_on_its_own_page_the_form_is_sent_without_a_target_that_only_lists_have(
    alice: Client, session: Session
) -> None:
    assert 'hx-target="closest .annotation"' in html(fragment(alice, address(session)))
    assert "closest .annotation" not in html(alice.get(address(session)))
