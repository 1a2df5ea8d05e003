"""The administration: staff see all sessions, compress and rewind them, and change nothing else."""

import re
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from historyapp.core.prices import load_prices
from historyapp.models import CompressionRun, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.bootstrap import bootstrap
from historyapp.services.rewinds import last_good_step
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.conftest import signed_in
from tests.dashboard.pages import html, text
from tests.services.drafts import act, failed, ok

SESSIONS = "/admin/historyapp/session/"
COMPRESS, REWIND = "compress", "rewind_to_the_last_good_step"


@pytest.fixture
def staff(db: None) -> Client:
    """The owner, as a sign-in link signs them in."""
    return signed_in(bootstrap().user)


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    runs: list[UUID] = []
    monkeypatch.setattr("historyapp.enqueue.wake", runs.append)
    return runs


@pytest.fixture
def stuck(project: Project) -> Session:
    """Two good steps, then three that failed."""
    made = create_session(project, names={"title": "Stuck"}, settings=None)
    for result in (ok(outputs="a"), ok(outputs="b"), *[failed(reason="no")] * 3):
        append(project, made.pk, [act("ls"), result])
    made.refresh_from_db()
    return made


def choose(client: Client, action: str, *sessions: Session, **more: Any) -> Any:
    chosen = [str(session.pk) for session in sessions]
    return client.post(SESSIONS, {"action": action, "_selected_action": chosen, **more}, follow=True)


def confirm(client: Client, page: Any) -> Any:
    """Submits the confirmation page without changes."""
    previews = page.context["possible"]
    seen = {f"seen-{preview.session.pk}": preview.confirmation for preview in previews}
    sessions = [preview.session for preview in previews]
    return choose(client, page.context["action"], *sessions, confirmed="yes", **seen)


def test_only_staff_can_open_the_administration(
    client: Client, alice: Client, staff: Client, session: Session
) -> None:
    for path in ("/admin/", SESSIONS, f"{SESSIONS}{session.pk}/change/"):
        assert client.get(path, follow=True).redirect_chain[-1][0].startswith("/sign-in?next=/admin/")
        assert alice.get(path, follow=True).status_code == 403
        assert staff.get(path).status_code == 200


def test_the_dashboard_and_the_administration_link_to_each_other(staff: Client, alice: Client) -> None:
    link = '<a class="menu-item" href="/admin/">Administration</a>'
    assert link in html(staff.get("/"))
    assert link not in html(alice.get("/"))
    assert '<a href="/">View site</a>' in html(staff.get("/admin/"))


def test_the_administration_spells_api_keys_as_other_pages_do(staff: Client) -> None:
    assert "API keys" in text(staff.get("/admin/"))
    assert "Select API key to view" in text(staff.get("/admin/historyapp/apikey/"))


def test_staff_see_the_sessions_of_every_project(staff: Client, project: Project, session: Session) -> None:
    create_session(Project.objects.create(name="Charlie's"), names={"title": "His own"})
    page = text(staff.get(SESSIONS))
    assert "Repair the totals" in page
    assert "His own" in page
    assert "His own" not in text(staff.get(f"{SESSIONS}?project__id__exact={project.pk}"))
    assert "Repair the totals" not in text(staff.get(f"{SESSIONS}?q=own"))


def test_nothing_can_be_added_changed_or_deleted(staff: Client, session: Session) -> None:
    for model in ("session", "compressionrun", "auditrecord"):
        assert staff.get(f"/admin/historyapp/{model}/").status_code == 200
        assert staff.get(f"/admin/historyapp/{model}/add/").status_code == 403
    one = f"{SESSIONS}{session.pk}/"
    assert staff.get(f"{one}delete/").status_code == 403
    assert staff.post(f"{one}change/", {"title": "mine"}).status_code == 403
    assert "delete_selected" not in html(staff.get(SESSIONS))


def test_compress_asks_for_confirmation_and_shows_the_cost(staff: Client, stuck: Session) -> None:
    change_session(stuck.project, stuck.pk, {"settings": {"compression_strategy": "simple_extract"}})
    page = choose(staff, COMPRESS, stuck)
    assert "Steps 1 to 1, " in text(page)
    assert "by simple_extract" in text(page)
    assert not CompressionRun.objects.exists()


def test_the_preview_of_compress_has_the_cost_and_the_date_of_the_prices(
    staff: Client, stuck: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    names = {"compression_strategy": "episode_summary", "llm_name": "gpt-5-mini"}
    change_session(stuck.project, stuck.pk, {"settings": names})
    page = text(choose(staff, COMPRESS, stuck))
    assert re.search(rf"for \$[\d.]+ at the prices of {load_prices().as_of}\.", page)


@pytest.mark.django_db(transaction=True)
def test_compress_starts_the_confirmed_runs(staff: Client, stuck: Session, woken: list[UUID]) -> None:
    page = confirm(staff, choose(staff, COMPRESS, stuck))
    run = CompressionRun.objects.get()
    assert (run.session_id, run.actor, run.to_step) == (stuck.pk, "user:owner", 1)
    assert woken == [run.pk]
    assert "Stuck: compression started." in text(page)
    again = confirm(staff, choose(staff, COMPRESS, stuck))
    assert "Stuck: a compression is already running." in text(again)


@pytest.mark.parametrize("change", ["steps", "strategy"])
def test_compress_starts_only_what_was_confirmed(
    staff: Client, stuck: Session, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A key that may only write can change the session between the page and the click."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    change_session(stuck.project, stuck.pk, {"settings": {"compression_strategy": "simple_extract"}})
    page = choose(staff, COMPRESS, stuck)
    if change == "steps":
        append(stuck.project, stuck.pk, [entry for _ in range(9) for entry in (act("ls"), ok())])
    else:
        change_session(stuck.project, stuck.pk, {"settings": {"compression_strategy": "episode_summary"}})
    assert "compression started" in text(confirm(staff, page))
    run = CompressionRun.objects.get()
    assert (run.strategy, run.model, run.to_step) == ("simple_extract", "", 1)


def test_rewind_asks_for_confirmation_and_goes_back_to_the_last_good_step(
    staff: Client, stuck: Session
) -> None:
    page = choose(staff, REWIND, stuck)
    assert "Rewinds to the end of step 2. Cuts off steps 3 to 5, which stay readable as a take." in text(page)
    assert Session.objects.get(pk=stuck.pk).steps == 5
    done = confirm(staff, page)
    assert "Stuck: rewound to step 2." in text(done)
    rewound = Session.objects.get(pk=stuck.pk)
    assert rewound.steps == 2
    assert rewound.rewinds().get().body["actor"] == "user:owner"


def test_a_session_that_grew_meanwhile_is_not_rewound(staff: Client, stuck: Session) -> None:
    page = choose(staff, REWIND, stuck)
    append(stuck.project, stuck.pk, [act("ls"), ok(outputs="c")])
    assert "the session's head is 12" in text(confirm(staff, page))
    assert Session.objects.get(pk=stuck.pk).steps == 6


def test_an_action_without_work_cannot_be_confirmed(
    staff: Client, project: Project, session: Session
) -> None:
    without_success = create_session(project, names={"title": "Only failures"})
    append(project, without_success.pk, [act("ls"), failed(reason="no")])
    page = choose(staff, REWIND, session, without_success)
    assert "There is nothing to do: the newest step succeeded or is an answer." in text(page)
    assert "There is no step to rewind to: no step succeeded or is an answer." in text(page)
    assert page.context["possible"] == []
    assert 'name="confirmed"' not in html(page)
    assert "There is nothing to compress" in text(choose(staff, COMPRESS, without_success))


def test_an_action_without_its_preview_is_refused(staff: Client, stuck: Session) -> None:
    for action in (REWIND, COMPRESS):
        assert "did not show this session" in text(choose(staff, action, stuck, confirmed="yes"))
    assert not CompressionRun.objects.exists()
    assert Session.objects.get(pk=stuck.pk).steps == 5


def test_the_number_of_sessions_in_an_action_is_limited(
    staff: Client, stuck: Session, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.admin.MAX_AT_ONCE", 1)
    assert "Choose at most 1 sessions." in text(choose(staff, REWIND, stuck, session))


def test_staff_without_the_permission_can_only_read(stuck: Session) -> None:
    looker = User.objects.create_user("looker", is_staff=True)
    looker.user_permissions.add(*_permissions("view_session"))
    client = signed_in(looker)
    assert "Stuck" in text(client.get(SESSIONS))
    assert 'value="compress"' not in html(client.get(SESSIONS))
    choose(client, COMPRESS, stuck, confirmed="yes")
    assert not CompressionRun.objects.exists()


def _permissions(*names: str) -> list[Any]:
    from django.contrib.auth.models import Permission

    return list(Permission.objects.filter(codename__in=names))


def test_the_last_good_step_of_a_long_failure_is_found(
    stuck: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.rewinds._BATCH_SIZE", 2)
    assert last_good_step(History(stuck)) == 2
    assert last_good_step(History(create_session(stuck.project))) is None


def test_a_hostile_title_is_escaped(staff: Client, stuck: Session) -> None:
    change_session(stuck.project, stuck.pk, {"title": "<script>alert(1)</script>"})
    for page in (staff.get(SESSIONS), choose(staff, REWIND, stuck)):
        assert "<script>alert" not in html(page)


def test_signing_out_leads_back_to_the_sign_in_page(staff: Client) -> None:
    assert staff.post("/admin/logout/").headers["Location"] == "/sign-in"
    assert staff.get("/admin/", follow=True).redirect_chain[-1][0].startswith("/sign-in")
