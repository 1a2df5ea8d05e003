"""Share links are created, listed and revoked on the session's page, and listed for the whole project."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard import share_list
from historyapp.models import Project, Session, ShareLink
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.shares import ShareOptions, create_share
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act

LINK = re.compile(r"http://testserver(/s/[A-Za-z0-9_=-]{64}/)")


def form(session: Session) -> str:
    return f"/sessions/{session.pk}/shares"


def make(client: Client, session: Session, **fields: str) -> str:
    """The page after a link was made."""
    response = client.post(form(session), {"what": "session", "days": "30", **fields}, follow=True)
    assert response.status_code == 200
    return html(response)


def test_the_session_page_links_to_the_form(alice: Client, session: Session) -> None:
    assert f'href="{form(session)}?step=2"' in html(alice.get(f"/sessions/{session.pk}?step=2"))
    dialog = fragment(alice, f"{form(session)}?step=2")
    assert "at the end of step 2" in text(dialog)
    assert "<html" not in html(dialog)


def test_the_address_is_shown_once_and_opens_without_an_account(alice: Client, session: Session) -> None:
    made = make(alice, session)
    (path,) = set(LINK.findall(made))
    assert "Repair the totals, please." not in html(Client().get(path, follow=True))
    assert "read_file" in html(Client().get(path, follow=True))
    again = html(alice.get(form(session)))
    assert not LINK.search(again)
    assert path.split("/")[2] not in again


def test_the_address_shows_on_no_other_sessions_page(
    alice: Client, bob: Client, project: Project, session: Session
) -> None:
    other = fork(project, session.pk)
    alice.post(form(session), {"days": "1"})
    for client, shown in ((alice, other), (bob, session)):
        assert not LINK.search(html(client.get(form(shown))))
    assert LINK.search(html(alice.get(form(session))))


@pytest.mark.parametrize("fields", [{}, {"takes": "on"}, {"inputs": "on"}, {"takes": "on", "inputs": "on"}])
def test_a_link_shows_the_chosen_parts(alice: Client, session: Session, fields: dict[str, str]) -> None:
    make(alice, session, days="7", **fields)
    share = ShareLink.objects.get()
    assert (share.with_takes, share.with_inputs) == ("takes" in fields, "inputs" in fields)
    assert abs(share.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)
    assert (share.as_of, share.actor) == (None, "user:alice")


def test_a_link_to_the_whole_session_opens_at_the_step_in_view(alice: Client, session: Session) -> None:
    assert "the link opens at step 3" in text(fragment(alice, f"{form(session)}?step=3"))
    made = make(alice, session, step="3")
    (path,) = set(LINK.findall(made))
    assert f"{path}?step=3" in made
    response = Client().get(f"{path}?step=3", follow=True)
    assert response.request["QUERY_STRING"] == "step=3"
    assert "Step 3 ·" in text(response)
    rewind(session.project, session.pk, Target(to_step=2))
    assert "Step 2 ·" in text(Client().get(f"{path}?step=3", follow=True))


def test_a_link_to_a_position_ends_with_the_step_in_view_and_opens_there(
    alice: Client, project: Project, session: Session
) -> None:
    (path,) = set(LINK.findall(make(alice, session, what="moment", step="2")))
    append(project, session.pk, [act("read", path="later.txt")])
    response = Client().get(path, follow=True)
    assert response.request["QUERY_STRING"] == "step=-1"
    assert "file-2.txt" in html(response)
    assert "file-3.txt" not in html(response)
    assert "2 steps" in text(response)
    assert "Shared, read-only, up to step 2. Expires" in text(response)
    assert "You are viewing" not in text(response), "said once"


def test_links_to_positions_are_listed_by_their_last_steps(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    other = fork(project, session.pk, at_step=2)
    append(project, other.pk, [act("read")])
    for as_of in (0, 1, 2, session.head + 1):
        create_share(project, session.pk, ShareOptions(as_of=as_of))
    with CaptureQueriesContext(connection) as queries:
        alice.get(form(session))
    create_share(project, session.pk, ShareOptions(as_of=session.head))
    with CaptureQueriesContext(connection) as more_queries:
        page = text(alice.get(form(session)))
    first, ends = "before the first step", [f"up to step {number}" for number in (5, 2, 1)]
    assert re.findall(r"(before the first step|up to step \d) ,", page) == [*ends, first, first]
    assert len(more_queries) == len(queries)
    for as_of, end in ((2, "up to step 1"), (other.fork_position + 1, "up to step 3")):
        create_share(project, other.pk, ShareOptions(as_of=as_of))
        assert f"{end} , no inputs" in text(alice.get(form(other)))


def test_links_to_what_a_fork_shares_take_no_further_queries(
    alice: Client, project: Project, session: Session
) -> None:
    other = fork(project, session.pk, at_step=2)
    for address in (form(other), "/project"):
        taken = []
        for as_of in (other.fork_position, 2):
            create_share(project, other.pk, ShareOptions(as_of=as_of))
            with CaptureQueriesContext(connection) as queries:
                page = text(alice.get(address))
            taken.append(len(queries))
        assert taken[0] == taken[1]
        assert ("up to step 1 ," in page, "up to step 2 ," in page) == (True, True)


def test_a_link_to_a_position_in_a_take_shows_the_take(
    alice: Client, project: Project, session: Session
) -> None:
    head = session.head
    rewind(project, session.pk, Target(to_step=1))
    append(project, session.pk, [act("read", path="after.txt")])
    alice.post(f"{form(session)}?as_of={head}", {"what": "moment", "step": "4", "days": "1"})
    (path,) = set(LINK.findall(html(alice.get(form(session)))))
    page = html(Client().get(path, follow=True))
    assert "file-4.txt" in page
    assert "after.txt" not in page


@pytest.mark.parametrize("days", ["0", "366", "-1", "soon", "1e9", "9" * 400])
def test_an_invalid_number_of_days_is_refused(alice: Client, session: Session, days: str) -> None:
    response = alice.post(form(session), {"days": days})
    assert response.status_code == 422
    assert not ShareLink.objects.exists()


def test_a_revoked_link_stops_working_and_stays_listed(alice: Client, session: Session) -> None:
    (path,) = set(LINK.findall(make(alice, session)))
    share = ShareLink.objects.get()
    Client().get(path, follow=True)
    assert "opened 1 time" in text(alice.get(form(session)))
    response = alice.post(f"{form(session)}/{share.pk}/revoke", follow=True)
    assert "revoked" in text(response)
    assert f"{share.pk}/revoke" not in html(response)
    assert Client().get(path, follow=True).status_code == 404


def test_revoking_a_link_stays_at_the_step_in_view(alice: Client, session: Session) -> None:
    create_share(session.project, session.pk, ShareOptions())
    page = html(alice.get(f"{form(session)}?step=3"))
    (revoke,) = re.findall(r'action="([^"]+/revoke[^"]*)"', page)
    page = html(alice.post(revoke, follow=True))
    assert "at the end of step 3" in page
    assert f'<h1><a href="/sessions/{session.pk}?step=3">' in page


def test_the_project_lists_the_usable_links_of_its_sessions(
    alice: Client, charlie: Client, project: Project, session: Session
) -> None:
    other = fork(project, session.pk, title="Other <b>")
    create_share(project, session.pk, ShareOptions(as_of=5), actor="key:ph_abc")
    kept = create_share(project, other.pk, ShareOptions(with_takes=True), actor="user:alice")
    revoked = create_share(project, other.pk, ShareOptions())
    ShareLink.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    page = alice.get("/project")
    assert "by key ph_abc" in text(page)
    assert "Other &lt;b&gt;" in html(page)
    assert html(page).count("/revoke") == 2
    response = alice.post(f"{form(other)}/{kept.pk}/revoke", {"list": "project"})
    assert response["Location"] == "/project#share-links"
    assert html(alice.get("/project")).count("/revoke") == 1
    assert "/revoke" not in html(charlie.get("/project"))


def test_long_lists_have_pages(
    alice: Client, project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_list, "LINKS", 2)
    for _ in range(5):
        create_share(project, session.pk, ShareOptions())
    for page in (form(session), "/project"):
        seen, address = list[str](), page
        while address:
            shown = html(alice.get(address))
            seen += re.findall(r"shares/([0-9a-f-]{36})/revoke", shown)
            if page != "/project" and (before := re.search("links_before=[^#]*", address)):
                actions = re.findall(r'action="([^"]+/revoke[^"]*)', shown)
                assert all(before[0] in action for action in actions)
            older = re.search(r'href="([^"]*links_before=[^"]*)"', shown)
            address = older[1].replace("&amp;", "&") if older else ""
        assert len(seen) == len(set(seen)) == 5
    assert alice.get(f"{form(session)}?links_before=x").status_code == 422


def test_strangers_cannot_create_see_or_revoke_links(
    charlie: Client, alice: Client, project: Project, session: Session
) -> None:
    share = create_share(project, session.pk, ShareOptions())
    assert charlie.get(form(session)).status_code == 404
    assert charlie.post(form(session), {"days": "1"}).status_code == 404
    assert charlie.post(f"{form(session)}/{share.pk}/revoke").status_code == 404
    assert Client().post(f"{form(session)}/{share.pk}/revoke")["Location"].startswith("/sign-in")
    other = fork(project, session.pk)
    assert alice.post(f"{form(other)}/{share.pk}/revoke").status_code == 404
    assert alice.get(f"{form(session)}/{share.pk}/revoke").status_code == 405
    share.refresh_from_db()
    assert share.revoked_at is None
