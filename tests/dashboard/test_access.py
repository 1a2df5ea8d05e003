"""Every page except sign-in needs a person who is signed in, and people see only their own projects."""

import re
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, reverse

from dashboard.urls import urlpatterns
from historyapp.models import ApiKey, Membership, Project, Session
from historyapp.models.large_reads import RequestRead, request_read
from historyapp.models.saved_searches import SavedSearch
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.keys import create_key, on_credential
from historyapp.services.rewinds import Target, rewind
from historyapp.services.shares import ShareOptions, create_share
from historyapp.services.strategy_comparisons import start_comparison
from historyapp.services.what_ifs import WhatIfOptions, save_what_if
from tests.dashboard.conftest import signed_in
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ok

OPEN = {"shared", "shared-session", "sign-in", "sign-in-by-link", "sign-out", "theme"}
POSTED = {
    "rename",
    "change-status",
    "dismiss",
    "note",
    "index-names",
    "save-what-if",
    "change-what-if",
    "fork",
    "switch-project",
    "sign-out",
    "theme",
    "cancel-compression",
    "retry-compression",
    "session-caps",
    "key-caps",
    "list-columns",
    "revoke-share",
}
OTHER_VALUES: dict[str, dict[str, object]] = {
    "context-block": {"key": "json"},
    "image": {"number": 5, "key": "result-0-part0"},
}
VALUES = {
    "message": "msg",
    "number": 1,
    "position": 12,
    "key": "thought",
    "format": "markdown",
    "token": "x",
    "rest": "x",
}


def addresses(session: Session) -> dict[str, str]:
    """Every address of the dashboard. Addresses of a session are those of this session."""
    run, side = (session.compression_runs.filter(trial=trial).first() for trial in (False, True))
    key = ApiKey.objects.filter(project=session.project).first() or create_key(session.project, "agent")[0]
    saved = save_what_if(session.project, "small", WhatIfOptions(max_tokens=2048))
    ids = {
        "key_id": key.pk,
        "webhook_id": uuid4(),
        "share_id": create_share(session.project, session.pk, ShareOptions()).pk,
        "bulk_id": uuid4(),
        "evaluation_id": uuid4(),
        "search_id": SavedSearch.objects.get_or_create(project=session.project, name="all")[0].pk,
        "what_if_id": saved.pk,
        "session_id": session.pk,
        "project_id": session.project_id,
        "run_id": run.pk if run else uuid4(),
        "comparison_id": side.comparison if side else uuid4(),
    }
    names = {}
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        assert pattern.name
        values = {**VALUES, **ids, **OTHER_VALUES.get(pattern.name, {})}
        names[pattern.name] = reverse(
            pattern.name, kwargs={name: values[name] for name in pattern.pattern.converters}
        )
    return names


def ask(client: Client, name: str, address: str) -> int:
    return client.post(address).status_code if name in POSTED else client.get(address).status_code


@pytest.fixture
def rewound(project: Project, session: Session) -> Session:
    rewind(project, session.pk, Target(to_step=4))
    run_request = RunRequest("simple_extract", 1, 2)
    start_run(project, session.pk, run_request)
    start_comparison(project, session.pk, [run_request] * 2)
    return session


def test_a_stranger_gets_404_wherever_a_member_gets_an_answer(
    bob: Client, charlie: Client, rewound: Session
) -> None:
    image = {"type": "image", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAACw="}
    append(rewound.project, rewound.pk, [act(), ok(None, [image])])
    of_the_session = {
        name: address for name, address in addresses(rewound).items() if str(rewound.pk) in address
    }
    assert len(of_the_session) >= 12
    assert {name: ask(charlie, name, address) for name, address in of_the_session.items()} == dict.fromkeys(
        of_the_session, 404
    )
    answers = {name: ask(bob, name, address) for name, address in of_the_session.items()}
    refused = {name: status for name, status in answers.items() if status not in (200, 204, 302, 422)}
    assert refused == {"session-caps": 403}, "only owners set caps"


def test_a_stranger_cannot_undo_or_rewind(charlie: Client, rewound: Session) -> None:
    for name in ("rewind", "undo"):
        assert charlie.post(addresses(rewound)[name], {"step": 1}).status_code == 404
    rewound.refresh_from_db()
    assert rewound.head == 12


def test_a_missing_session_gets_the_response_of_a_strangers_session(
    charlie: Client, session: Session
) -> None:
    missing = uuid4()
    theirs = html(charlie.get(reverse("session", args=[session.pk])))
    nobodys = html(charlie.get(reverse("session", args=[missing])))
    token = r'name="csrfmiddlewaretoken" value="[^"]*"'
    assert re.sub(token, "", theirs.replace(str(session.pk), "ID")) == re.sub(
        token, "", nobodys.replace(str(missing), "ID")
    )


def test_every_other_page_redirects_to_sign_in_and_back(client: Client, session: Session) -> None:
    for name, address in addresses(session).items():
        if name in OPEN:
            continue
        response = client.post(address) if name in POSTED else client.get(address)
        assert response.status_code == 302, name
        assert response["Location"] == f"/sign-in?next={address}", name


def test_a_fragment_without_a_login_redirects_the_whole_page_to_sign_in(
    client: Client, session: Session
) -> None:
    address = reverse("step", args=[session.pk, 1])
    response = client.get(
        address, HTTP_HX_REQUEST="true", HTTP_HX_CURRENT_URL=f"http://testserver/sessions/{session.pk}?step=3"
    )
    assert response["HX-Redirect"] == f"/sign-in?next=/sessions/{session.pk}%3Fstep%3D3"
    assert response.content == b""


def test_pages_are_private(alice: Client, session: Session) -> None:
    response = alice.get(reverse("session", args=[session.pk]))
    assert "private" in response["Cache-Control"]
    assert "HX-Request" in response["Vary"]


def test_a_list_shows_only_the_chosen_project(project: Project, session: Session) -> None:
    user = User.objects.create_user("dora")
    other = Project.objects.create(name="Other project")
    for mine in (project, other):
        Membership.objects.create(project=mine, user=user)
    client = signed_in(user)
    assert "Repair the totals" in text(client.get("/"))
    response = client.post(reverse("switch-project", args=[other.pk]))
    assert response["Location"] == "/"
    assert "Repair the totals" not in text(client.get("/"))
    assert "Other project" in text(client.get("/"))


def test_nobody_can_switch_to_a_strangers_project(
    charlie: Client, project: Project, session: Session
) -> None:
    assert charlie.post(reverse("switch-project", args=[project.pk])).status_code == 404
    assert "Repair the totals" not in text(charlie.get("/"))


def test_a_person_without_a_project_gets_an_explanation(db: None) -> None:
    response = signed_in(User.objects.create_user("eve")).get("/")
    assert response.status_code == 404
    assert "You are not a member of any project" in text(response)


def test_actions_are_recorded_under_the_name_of_the_person(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [act()])
    alice.post(reverse("rewind", args=[session.pk]), {"step": 2})
    newest = session.rewinds().get()
    assert newest.body["actor"] == "user:alice"


@pytest.mark.parametrize(("person", "expected"), [("alice", True), ("nobody", False)])
def test_the_person_of_a_page_is_reported_once_known(
    alice: Client, client: Client, session: Session, person: str, expected: bool
) -> None:
    """The server then counts the request for the person, not for the address, which others share."""
    owners: list[bytes] = []
    restore = on_credential.set(owners.append)
    try:
        (alice if person == "alice" else client).get("/")
    finally:
        on_credential.reset(restore)
    user = User.objects.get(username="alice")
    assert owners == ([f"person {user.pk}".encode()] if expected else [])


@pytest.mark.parametrize("page", ["session", "sessions"])
def test_pages_read_for_their_project(page: str, alice: Client, session: Session) -> None:
    """Otherwise each person of a project could read many bytes at the same time."""
    restore = request_read.set(RequestRead())
    try:
        alice.get(reverse(page, args=[session.pk] if page == "session" else []))
        read = request_read.get()
        assert read is not None
        assert read.owner == session.project_id.bytes
    finally:
        request_read.reset(restore)
