"""The palette's results: matches, access, the number of queries, and escaped titles."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.keys import KEYS
from historyapp.models import Membership, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import fragment, html
from tests.limited_blocks import without_limits
from tests.services.drafts import act, ok

MAX_QUERIES = 10


def items(response: Any) -> str:
    assert response.status_code == 200
    return html(response)


def search_results(client: Client, query: str) -> str:
    return items(fragment(client, f"/palette?{query}"))


def test_a_session_is_found_by_title_agent_and_the_start_of_its_id(alice: Client, session: Session) -> None:
    address = f'href="/sessions/{session.pk}"'
    id = str(session.pk)
    for text in ("totals repair", "DEMO", id, id[:9], id.replace("-", "")[:20].upper()):
        assert address in search_results(alice, f"q={text}")
    for text in ("totals missing", id[:-2] + "zz", "0000"):
        assert address not in search_results(alice, f"q={text}")


def test_archived_sessions_are_found_by_their_id_alone(
    alice: Client, project: Project, session: Session
) -> None:
    change_session(project, session.pk, {"status": "archived"})
    assert str(session.pk) not in search_results(alice, "q=totals")
    assert f'href="/sessions/{session.pk}"' in search_results(alice, f"q={session.pk}")


def test_only_sessions_of_the_project_are_found(alice: Client, charlie: Client, session: Session) -> None:
    for text in ("totals", str(session.pk)):
        assert f'href="/sessions/{session.pk}"' not in search_results(charlie, f"q={text}")
    assert fragment(charlie, f"/palette?session={session.pk}").status_code == 404


def test_the_project_is_that_of_the_session_in_view(
    alice: Client, session: Session, django_user_model: type[User]
) -> None:
    other = Project.objects.create(name="Another project")
    user = django_user_model.objects.get(username="alice")
    Membership.objects.create(project=other, user=user, is_owner=True)
    elsewhere = create_session(other, names={"title": "Totals of another project"})
    beside = create_session(other, names={"title": "Totals beside it"})
    listed = search_results(alice, f"session={elsewhere.pk}&q=totals")
    assert f'href="/sessions/{beside.pk}"' in listed
    assert f'href="/sessions/{session.pk}"' not in listed


@pytest.mark.parametrize("text", ["3", "step 3", "%233", "Step%203"])
def test_a_number_leads_to_the_step(alice: Client, session: Session, text: str) -> None:
    listed = search_results(alice, f"session={session.pk}&step=5&status=error&q={text}")
    assert f'href="/sessions/{session.pk}?step=3&amp;status=error"' in listed
    assert 'data-go="3"' in listed
    assert "file-3.txt" in listed


@pytest.mark.parametrize("text", ["0", "6", "999999999", "9999999999", "-1", "٣"])
def test_a_number_beyond_the_steps_leads_to_no_step(alice: Client, session: Session, text: str) -> None:
    assert "data-go" not in search_results(alice, f"session={session.pk}&q={text}")


def test_words_can_be_found_in_the_session(alice: Client, session: Session) -> None:
    listed = search_results(alice, f"session={session.pk}&step=2&q=a%26b%20%22")
    assert f'href="/sessions/{session.pk}?step=2&amp;find=a%26b%20%22"' in listed
    assert "Find “" not in search_results(alice, "q=words")


def test_the_words_can_be_searched_in_all_sessions(alice: Client, session: Session) -> None:
    for place in ("", f"session={session.pk}&"):
        assert 'href="/search?q=a%26b%20%22"' in search_results(alice, f"{place}q=a%26b%20%22")


def test_files_of_all_sessions_lead_to_a_search(alice: Client, project: Project, session: Session) -> None:
    other = create_session(project, names={"title": "Elsewhere"})
    append(project, other.pk, [act("read_file", path="src/my parser.py"), ok()])
    for place in ("", f"session={session.pk}&"):
        listed = search_results(alice, f"{place}q=parser")
        assert "Files in all sessions" in listed
        assert 'href="/search?q=file%3A%22src/my%20parser.py%22"' in listed
        assert "Elsewhere, step 1" in listed
    assert "Elsewhere" in html(alice.get("/search?q=file%3A%22src/my%20parser.py%22"))


def test_only_actions_that_the_session_allows_are_shown(
    alice: Client, project: Project, session: Session
) -> None:
    here = f"session={session.pk}&step=4"
    assert f'href="/sessions/{session.pk}/rewinds?step=4"' in search_results(alice, f"{here}&q=rewind")
    assert f'formaction="/sessions/{session.pk}/forks?step=4"' in search_results(alice, f"{here}&q=fork")
    assert f'href="/sessions/{session.pk}/exports/markdown"' in search_results(alice, f"{here}&q=export+mark")
    assert 'name="theme" value="dark"' in search_results(alice, "q=theme")
    assert "/rewinds" not in search_results(alice, f"{here}&as_of=11&q=rewind")
    assert "as_of=11" in search_results(alice, f"{here}&as_of=11&q=fork")
    assert ">Archive<" in search_results(alice, f"{here}&q=archive").replace("<bdi>", "").replace(
        "</bdi>", "<"
    )
    change_session(project, session.pk, {"status": "archived"})
    assert "/rewinds" not in search_results(alice, f"{here}&q=rewind")
    assert 'value="finished"' in search_results(alice, f"{here}&q=unarchive")


def test_a_bookmark_is_set_or_removed(alice: Client, session: Session) -> None:
    here = f"session={session.pk}&step=2&q=bookmark"
    address = f"/sessions/{session.pk}/steps/2/note"
    assert f'formaction="{address}"' in search_results(alice, here)
    alice.post(address, {})
    assert "Remove the bookmark" in search_results(alice, here)


def test_jumps_name_their_keys(alice: Client, session: Session) -> None:
    listed = search_results(alice, f"session={session.pk}&step=2&q=go+next+compaction")
    assert 'data-do="next-compaction"' in listed
    key = next(key.key for row in KEYS for key in row.keys if key.action == "next-compaction")
    assert f"<kbd>{key}</kbd>" in listed
    assert f"/sessions/{session.pk}/jump?step=2&amp;to=next-compaction" in listed


def test_only_staff_see_the_administration(alice: Client, django_user_model: type[User]) -> None:
    assert "/admin/" not in search_results(alice, "q=admin")
    django_user_model.objects.filter(username="alice").update(is_staff=True)
    assert 'href="/admin/"' in search_results(alice, "q=admin")


def test_hostile_titles_and_targets_are_escaped(alice: Client, project: Project) -> None:
    hostile = '<img src=x onerror="alert(1)">\u202e'
    session = create_session(project, names={"title": f"{hostile} totals", "agent": hostile})
    append(project, session.pk, [act("ls", path=hostile), ok()])
    for listed in (
        search_results(alice, "q=totals"),
        search_results(alice, f"session={session.pk}&q=1"),
        search_results(alice, f"session={session.pk}&q=<img"),
        html(alice.get("/palette?q=totals")),
    ):
        assert "<img" not in listed
        assert "\u202e" not in listed


def test_a_search_takes_few_queries_in_any_session(alice: Client, project: Project, session: Session) -> None:
    for _ in range(30):
        create_session(project, names={"title": "Repair the totals again"})
    search_results(alice, "q=totals")  # completes the search index
    for query in ("q=totals", f"session={session.pk}&step=3&q=3", f"session={session.pk}&step=3&q="):
        with CaptureQueriesContext(connection) as queries:
            search_results(alice, query)
        assert len(without_limits([each["sql"] for each in queries])) <= MAX_QUERIES


def test_a_file_links_to_the_steps_that_read_or_edit_it(alice: Client, project: Project) -> None:
    session = create_session(project)
    for path in ("src/app.py", "src/app.py", "docs/Größe & more.md"):
        append(project, session.pk, [act("read_file", path=path), ok()])
    append(project, session.pk, [act("edit_file", path="src/app.py", old_str="1", new_str="2"), ok()])
    here = f"session={session.pk}&step=2"
    page = search_results(alice, f"{here}&q=app src")
    assert f'href="/sessions/{session.pk}?step=2&amp;file=src/app.py"' in page
    assert "2 reads, 1 edit" in page
    assert "Größe" not in page
    address = f"/sessions/{session.pk}?step=2&file=docs/Gr%C3%B6%C3%9Fe%20%26%20more.md"
    assert address.replace("&", "&amp;") in search_results(alice, f"{here}&q=GRÖSSE")
    assert 'data-step="3"' in html(alice.get(address))
    assert "app.py" not in search_results(alice, f"{here}&q=")
    assert "file=src/app.py" not in search_results(alice, "q=app"), "only that of all sessions"
    append(project, session.pk, [act("read_file", path=f"/{'folder/' * 20}end.py"), ok()])
    assert "<bdi>…" in search_results(alice, f"{here}&q=end.py")
    assert "/folder/end.py</bdi>" in search_results(alice, f"{here}&q=end.py")


def test_without_scripts_a_page_has_the_same_results(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/palette?session={session.pk}&step=3&q=3"))
    assert f'href="/sessions/{session.pk}?step=3"' in page
    assert 'role="option"' not in page.partition('id="main"')[2].partition("</main>")[0]
    assert f'<input type="hidden" name="session" value="{session.pk}">' in page
    assert 'href="/search?q=nothing-like-this"' in html(alice.get("/palette?q=nothing-like-this"))


@pytest.mark.parametrize("session", ["no-id", "1"])
def test_an_invalid_session_id_is_a_422(alice: Client, session: str) -> None:
    assert alice.get(f"/palette?session={session}").status_code == 422


def test_a_slow_search_of_sessions_leaves_the_other_results(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.palette.SECONDS", 0)
    found = search_results(alice, "q=import")
    assert str(session.pk) not in found
    assert "/imports" in found
