"""A share link is created for one session, shown with its address once, listed, and revoked."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from historyapp.core.errors import NotFound
from historyapp.models import AuditRecord, IdempotencyKey, Project, ShareLink
from historyapp.services import shares
from historyapp.services.keys import on_credential
from historyapp.services.retention import purge
from historyapp.services.shares import find_share, share_token
from tests.api.agent import Agent, ask
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem


def token_in(url: str) -> str:
    return url.rstrip("/").rpartition("/s/")[2]


def listed(run: Agent, query: str = "") -> list[dict[str, Any]]:
    return list(run.get(f"/shares{query}")["items"])


def test_by_default_a_link_shows_no_takes_and_no_inputs_and_expires_in_30_days(
    run: Agent,
) -> None:
    made = run.post("/shares")
    assert made.status == 201
    share = find_share(token_in(made["url"]))
    assert (share.as_of, share.with_takes, share.with_inputs) == (None, False, False)
    assert timedelta(days=29) < share.expires_at - timezone.now() <= timedelta(days=30)
    assert made["url"].startswith("http://testserver/s/")


def test_only_a_found_link_is_reported_with_its_project(run: Agent, project: Project) -> None:
    token = token_in(run.post("/shares")["url"])
    owners: list[bytes] = []
    restore = on_credential.set(owners.append)
    try:
        with pytest.raises(NotFound):
            find_share(token[:-1] + ("A" if token[-1] != "A" else "B"))
        assert owners == []
        find_share(token)
    finally:
        on_credential.reset(restore)
    assert owners == [project.pk.bytes]


def test_a_link_keeps_its_options(run: Agent) -> None:
    run.append(ask(), ask())
    end = (timezone.now() + timedelta(hours=1)).isoformat()
    made = run.post("/shares", {"as_of": 1, "takes": True, "inputs": True, "expires_at": end})
    (shown,) = listed(run)
    assert shown == {name: value for name, value in made.body.items() if name != "url"}
    assert (shown["as_of"], shown["takes"], shown["inputs"], shown["state"]) == (1, True, True, "usable")
    assert (shown["opened"], shown["last_opened_at"]) == (0, None)
    assert shown["actor"].startswith("key:ph_")


def test_no_token_is_stored(run: Agent) -> None:
    url = run.post("/shares", headers={"Idempotency-Key": "one"})["url"]
    stored = [*ShareLink.objects.values(), *AuditRecord.objects.values(), *IdempotencyKey.objects.values()]
    assert token_in(url)[:20] not in json.dumps(stored, default=str)


def test_a_repeated_request_creates_one_link_and_shows_its_address_again(run: Agent) -> None:
    first, again = (run.post("/shares", headers={"Idempotency-Key": "one"}) for _ in range(2))
    assert first.body == again.body
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(listed(run)) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"as_of": 3}, "Use 0 to 0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "365 days"),
        ({"expires_at": "2999-01-01T00:00:00Z"}, "365 days"),
        ({"inputs": 1}, ""),
        ({"token": "mine"}, ""),
    ],
)
def test_an_invalid_link_is_not_created(run: Agent, fields: dict[str, Any], words: str) -> None:
    assert_problem(run.post("/shares", fields), 422, words)
    assert listed(run) == []


def test_a_revoked_link_stops_working_and_stays_in_the_list(run: Agent) -> None:
    made = run.post("/shares")
    assert run.delete(f"/shares/{made['id']}").status == 204
    with pytest.raises(NotFound, match="not valid"):
        find_share(token_in(made["url"]))
    (shown,) = listed(run)
    assert shown["state"] == "revoked"
    assert run.delete(f"/shares/{made['id']}").status == 204
    assert [shown] == listed(run)


def test_creating_and_revoking_a_link_is_audited_once(run: Agent, session_id: str) -> None:
    made = run.post("/shares")
    run.delete(f"/shares/{made['id']}")
    run.delete(f"/shares/{made['id']}")
    records = AuditRecord.objects.filter(session=session_id).order_by("created_at")
    assert [record.action for record in records] == ["share", "revoke share"]


def test_an_expired_link_cannot_be_opened(run: Agent) -> None:
    made = run.post("/shares")
    ShareLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(NotFound, match="not valid"):
        find_share(token_in(made["url"]))
    assert listed(run)[0]["state"] == "expired"


@pytest.mark.parametrize("place", [0, 10, 22, 40, 63])
def test_a_token_that_was_changed_is_refused_without_a_query(
    run: Agent, place: int, django_assert_num_queries: Any
) -> None:
    token = token_in(run.post("/shares")["url"])
    changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
    for wrong in (changed, token[:-1], token + "A", "", "é", "x" * 10_000):
        with django_assert_num_queries(0), pytest.raises(NotFound, match="not valid"):
            find_share(wrong)


def test_a_new_secret_key_invalidates_all_links(run: Agent) -> None:
    token = token_in(run.post("/shares")["url"])
    with override_settings(SECRET_KEY=f"{settings.SECRET_KEY}x"), pytest.raises(NotFound):
        find_share(token)


def test_a_link_is_deleted_with_its_session(run: Agent, project: Project, session_id: str) -> None:
    made = run.post("/shares")
    share = ShareLink.objects.get()
    assert share_token(share.pk) == token_in(made["url"])
    assert run.delete().status == 204  # archived
    purge(project, [UUID(session_id)], timezone.now() + timedelta(seconds=1))
    with pytest.raises(NotFound):
        find_share(token_in(made["url"]))


def test_a_link_of_another_session_is_not_found(alice: Agent, run: Agent, charlie: Agent) -> None:
    id = run.post("/shares")["id"]
    other = alice.within(f"/sessions/{alice.post('/sessions')['id']}")
    assert_problem(other.delete(f"/shares/{id}"), 404, "There is no link")
    assert_problem(run.delete("/shares/x"), 404, "There is no link x in this session.")
    assert listed(other) == []
    assert listed(run)[0]["state"] == "usable"


def test_revoking_a_link_needs_admin(run: Agent, project: Project, session_id: str) -> None:
    id = run.post("/shares")["id"]
    writer = Agent(key_for(project, "writer", ("read", "write"))).within(f"/sessions/{session_id}")
    assert_problem(writer.delete(f"/shares/{id}"), 403, "admin")
    assert writer.post("/shares").status == 201


def test_links_are_paginated_newest_first(run: Agent) -> None:
    ids = [run.post("/shares")["id"] for _ in range(3)][::-1]
    first = run.get("/shares?limit=2")
    second = run.get(f"/shares?limit=2&cursor={first['next']}")
    assert [item["id"] for item in [*first["items"], *second["items"]]] == ids
    assert second["next"] is None


def test_a_session_has_a_limit_of_usable_links(run: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MAX_SHARES", 1)
    id = run.post("/shares")["id"]
    assert_problem(run.post("/shares"), 409, "at most 1 links")
    run.delete(f"/shares/{id}")
    assert run.post("/shares").status == 201
