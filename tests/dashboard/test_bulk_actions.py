"""Actions of people on many sessions."""

import json
import re
import zipfile
from io import BytesIO
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from dashboard.views import bulk_actions
from historyapp import bulk_workers
from historyapp.models import BulkAction, CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ask, ok


@pytest.fixture(autouse=True)
def _a_slow_machine_leaves_nothing_to_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE_SECONDS", 60)


@pytest.fixture
def sessions(project: Project) -> list[Session]:
    return [create_session(project, names={"title": f"run {number}"}) for number in range(3)]


def with_steps(project: Project, session: Session, count: int = 12) -> None:
    drafts = [ask("Go on.")]
    for number in range(count):
        drafts += [act("ls", path=str(number)), ok(outputs="fine " * 20)]
    append(project, session.pk, drafts)


def post(client: Client, action: str, sessions: list[Session], *, htmx: bool = False, **fields: Any) -> Any:
    body = {"action": action, "session": [str(session.pk) for session in sessions], **fields}
    return client.post("/bulk", body, headers={"hx-request": "true"} if htmx else {})


def statuses() -> set[str]:
    return set(Session.objects.values_list("status", flat=True))


def test_a_form_starts_an_action_and_redirects_to_its_outcome(alice: Client, sessions: list[Session]) -> None:
    done = post(alice, "add_tag", sessions[:2], tag=" to   read ")
    page = text(alice.get(done.headers["Location"]))
    assert "Add the tag “to read”. 2 of 2 sessions tagged." in page
    assert "run 0" in page
    assert "run 2" not in page
    assert [Session.objects.get(pk=session.pk).tags for session in sessions] == [["to read"], ["to read"], []]
    assert BulkAction.objects.get().actor == "user:alice"


def test_htmx_gets_the_changed_and_the_unchanged_sessions(
    alice: Client, project: Project, sessions: list[Session]
) -> None:
    change_session(project, sessions[0].pk, {"tags": [f"t{number}" for number in range(50)]})
    change_session(project, sessions[1].pk, {"tags": ["x"]})
    shown = text(post(alice, "add_tag", sessions, htmx=True, tag="x"))
    assert "1 of 3 sessions tagged, 1 had nothing to do, 1 failed." in shown
    assert "run 0 : A session has at most 50 tags" in shown


def test_sessions_are_archived_and_unarchived(alice: Client, sessions: list[Session]) -> None:
    post(alice, "archive", sessions)
    assert statuses() == {"archived"}
    assert "No sessions" in text(alice.get("/"))
    post(alice, "unarchive", sessions)
    assert statuses() == {"finished"}


def test_after_archiving_the_sessions_can_be_unarchived_and_found(
    alice: Client, project: Project, sessions: list[Session]
) -> None:
    change_session(project, sessions[0].pk, {"status": "archived"})
    shown = html(post(alice, "archive", sessions, htmx=True))
    assert re.findall(r'name="session" value="([^"]+)"', shown) == [str(each.pk) for each in sessions[1:]]
    assert 'name="action" value="unarchive">Unarchive them' in shown
    for address, words in (("/", "3 sessions are archived"), ("/?q=run", "3 archived sessions match")):
        page = html(alice.get(address))
        assert words in " ".join(page.split())
        (link,) = re.findall(r'href="([^"]+)">show them', page)
        assert "run 0" in text(alice.get(link.replace("&amp;", "&")))
    assert 'value="unarchive"' not in html(post(alice, "unarchive", sessions, htmx=True))


def test_a_long_action_is_left_to_a_worker(
    alice: Client, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE_SECONDS", -1)
    shown = html(post(alice, "archive", sessions, htmx=True))
    action = BulkAction.objects.get()
    assert f'hx-get="/bulk/{action.pk}" hx-trigger="every 1s"' in shown
    assert "0 of 3 sessions archived, 3 waiting" in shown
    assert "0 of 3 sessions archived, 3 waiting" in text(alice.get("/"))
    bulk_workers.work_on_bulk_actions()
    assert "3 of 3" not in text(alice.get("/"))
    shown = html(alice.get(f"/bulk/{action.pk}", headers={"hx-request": "true"}))
    assert "every 1s" not in shown
    assert "3 of 3 sessions archived" in shown


def test_cancelling_skips_items_that_have_not_started(
    alice: Client, bob: Client, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE_SECONDS", -1)
    page = post(alice, "archive", sessions).headers["Location"]
    assert "Cancel" in text(bob.get(page))
    bob.post(f"{page}/cancel")
    bulk_workers.work_on_bulk_actions()
    assert statuses() == {"live"}
    assert "0 of 3 sessions archived, 3 not started: cancelled." in text(alice.get(page))
    assert alice.post(f"{page}/cancel").status_code == 409


def test_compressing_asks_for_confirmation_and_shows_the_cost(
    alice: Client, project: Project, sessions: list[Session]
) -> None:
    with_steps(project, sessions[0])
    with_steps(project, sessions[1])
    change_session(project, sessions[1].pk, {"status": "archived"})
    alice.cookies["theme"] = "dark"
    confirmation = post(alice, "compress", sessions, strategy="simple_extract")
    shown = text(confirmation)
    assert 'data-theme="dark"' in html(confirmation)
    assert "Compress 1 session" in shown
    assert "1 session has nothing to compress" in shown
    assert "run 1 : " in shown
    assert not BulkAction.objects.exists()
    assert 'name="agreed" value="0"' in html(confirmation)
    started = post(alice, "compress", sessions, strategy="simple_extract", agreed="0")
    page = text(alice.get(started.headers["Location"]))
    assert "0 of 3 sessions compressed, 1 had nothing to do, 1 failed, 1 under way." in page
    assert CompressionRun.objects.get(total=0, state="queued").actor == "user:alice"


def test_a_cost_above_the_shown_one_needs_another_confirmation(
    alice: Client, bob: Client, project: Project, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    with_steps(project, sessions[0])
    chosen: dict[str, Any] = {"strategy": "ai_summary", "model": "openai:gpt-5-mini"}
    refused = text(post(alice, "compress", sessions, agreed="1", **chosen))
    assert "The cost has grown since it was shown. Nothing was started." in refused
    assert "Only owners of the project may start it" in text(post(bob, "compress", sessions, **chosen))
    post(bob, "compress", sessions, agreed="999999999", **chosen)
    post(alice, "compress", sessions, agreed="1e9", **chosen)
    assert not BulkAction.objects.exists()
    post(alice, "compress", sessions, agreed="999999999", **chosen)
    assert CompressionRun.objects.filter(state="queued").count() == 1


def test_a_confirmed_compression_stays_free_when_the_strategy_changes(
    alice: Client, project: Project, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setattr(bulk_actions, "AT_ONCE_SECONDS", -1)
    settings = {"compression_strategy": "simple_extract"}
    change_session(project, sessions[0].pk, {"settings": settings})
    with_steps(project, sessions[0])
    assert 'name="agreed" value="0"' in html(post(alice, "compress", sessions[:1]))
    post(alice, "compress", sessions[:1], agreed="0")
    change_session(project, sessions[0].pk, {"settings": {"compression_strategy": "episode_summary"}})
    bulk_workers.work_on_bulk_actions()
    run = CompressionRun.objects.get()
    assert (run.strategy, run.model) == ("simple_extract", "")


def test_two_chosen_sessions_are_compared(alice: Client, sessions: list[Session]) -> None:
    first, second, _ = sessions
    compared = post(alice, "compare", [first, second])
    assert compared.headers["Location"] == f"/compare?a={first.pk}&b={second.pk}"
    assert "Select two sessions to compare; 3 are selected." in text(post(alice, "compare", sessions))


def test_chosen_sessions_are_exported_as_one_zip(alice: Client, sessions: list[Session]) -> None:
    chosen = {"session": [session.pk for session in sessions[:2]], "format": "markdown"}
    response: Any = alice.post("/exports", chosen)
    with zipfile.ZipFile(BytesIO(b"".join(response.streaming_content))) as archive:
        index = json.loads(archive.read("index.json"))
        assert [file["title"] for file in index["files"]] == ["run 0", "run 1"]
        assert all("run" in archive.read(file["file"]).decode() for file in index["files"])


def test_an_invalid_form_is_refused_with_the_reason(alice: Client, sessions: list[Session]) -> None:
    assert "No session is chosen" in text(post(alice, "archive", []))
    assert "Enter a tag" in text(post(alice, "add_tag", sessions, tag=" "))
    assert "`action` must be one of" in text(post(alice, "erase", sessions))
    assert "at most 100 characters" in text(post(alice, "add_tag", sessions, tag="x" * 101))
    wrong = alice.post("/bulk", {"action": "archive", "session": "x"})
    assert "no valid ID" in text(wrong)
    assert wrong.status_code == 422
    many = [Session(pk=uuid4()) for _ in range(501)]
    assert "at most 500 sessions" in text(post(alice, "archive", many))
    assert alice.get("/bulk").status_code == 405
    assert "no export format" in text(alice.post("/exports", {"session": sessions[0].pk, "format": "pdf"}))
    assert not BulkAction.objects.exists()


def test_strangers_cannot_change_or_see_sessions(
    alice: Client, charlie: Client, sessions: list[Session]
) -> None:
    shown = text(post(charlie, "archive", sessions, htmx=True))
    assert "3 failed" in shown
    assert "run 0" not in shown
    assert statuses() == {"live"}
    page = post(alice, "add_tag", sessions, tag="x").headers["Location"]
    assert charlie.get(page).status_code == 404
    assert charlie.post(f"{page}/cancel").status_code == 404
    assert "sign-in" in post(Client(), "archive", sessions).headers["Location"]


def test_titles_and_tags_are_escaped(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "<script>alert(1)</script>"})
    page = post(alice, "add_tag", [session], tag="<u>x").headers["Location"]
    for shown in (
        html(alice.get(page)),
        html(post(alice, "archive", [session], htmx=True)),
        html(alice.get("/")),
    ):
        assert "<script>alert" not in shown
        assert "<u>x" not in shown


def test_all_listed_sessions_are_offered_up_to_the_limit_of_an_action(
    alice: Client, charlie: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.views.sessions.PAGE", 2)
    ids = {str(create_session(project, names={"agent": "a"}).pk) for _ in range(3)}
    create_session(project, names={"agent": "b"})

    def listed(client: Client, query: str = "?agent=a") -> set[str]:
        page = client.get(f"/listed-sessions{query}", follow=True).content.decode()
        return set(re.findall(r'name="session" value="([^"]+)" form="bulk"', page))

    assert listed(alice) == ids
    assert len(listed(alice, "")) == 4
    assert listed(charlie) == set()
    assert 'data-listed="3"' in alice.get("/?agent=a").content.decode()
    assert "data-listed" not in alice.get("/?agent=b").content.decode()
    monkeypatch.setattr("dashboard.views.sessions.MAX_SESSIONS", 2)
    assert "data-listed" not in alice.get("/?agent=a").content.decode()
    assert len(listed(alice)) == 2
