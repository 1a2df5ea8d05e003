"""Webhooks over the API: created with a secret that is shown once, changed, tested; and their deliveries."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from historyapp.models import AuditRecord, IdempotencyKey, Project, Webhook, WebhookDelivery
from historyapp.services import short_transactions
from historyapp.services.transactions import writing
from historyapp.services.webhooks import endpoints
from historyapp.services.webhooks.signing import secret_of
from tests.api.agent import Agent, Received
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem

URL = "https://hooks.example.com/playhead"
MISSING = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"


def new_webhook(alice: Agent, **fields: Any) -> Received:
    response = alice.post("/webhooks", {"url": URL, **fields})
    assert response.status == 201, response.body
    return response


def agent_at_webhook(alice: Agent, **fields: Any) -> Agent:
    """The agent at a new webhook."""
    return alice.within(f"/webhooks/{new_webhook(alice, **fields)['id']}")


def test_a_new_webhook_gets_all_events_and_shows_its_secret_once(alice: Agent) -> None:
    webhook = new_webhook(alice)
    assert webhook["secret"] == secret_of(UUID(webhook["id"]), 1)
    shown = alice.get(f"/webhooks/{webhook['id']}").body
    assert shown == {name: value for name, value in webhook.body.items() if name != "secret"}
    assert (shown["url"], shown["events"], shown["state"], shown["waiting"]) == (URL, [], "active", 0)
    assert alice.get("/webhooks")["items"] == [shown]


def test_the_secret_is_stored_nowhere(alice: Agent) -> None:
    webhook = alice.post("/webhooks", {"url": URL}, headers={"Idempotency-Key": "one"})
    tables = (Webhook, AuditRecord, IdempotencyKey)
    stored = json.dumps([list(table.objects.values()) for table in tables], default=str)
    assert webhook["secret"].removeprefix("whsec_")[:12] not in stored


def test_a_repeated_request_creates_one_webhook_and_shows_its_secret_again(alice: Agent) -> None:
    first, again = (
        alice.post("/webhooks", {"url": URL}, headers={"Idempotency-Key": "one"}) for _ in range(2)
    )
    assert first.body == again.body
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(alice.get("/webhooks")["items"]) == 1


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"url": "ftp://example.com/x"}, "invalid", "must begin with https://"),
        ({"url": "http://example.com/x"}, "invalid", "Without TLS"),
        ({"url": "https://user:word@example.com/"}, "invalid", "user name or a password"),
        ({"url": "https://example.com/a b"}, "invalid", "percent-encoded"),
        ({"url": "https://[::1"}, "invalid", "cannot be read"),
        ({"url": "https://10.0.0.1/x"}, "address-not-allowed", "not public"),
        ({"url": "https://[::ffff:169.254.169.254]/"}, "address-not-allowed", "not public"),
        ({"url": "https://localhost:8443/x"}, "address-not-allowed", "not public"),
        ({"url": "https://a.LOCALHOST/x"}, "address-not-allowed", "not public"),
        ({"url": "https://example.com/" + "x" * 2000}, "not-valid", "url"),
        ({"url": URL, "events": ["session.started", "nothing"]}, "not-valid", "session.started"),
        ({"url": URL, "secret": "mine"}, "not-valid", "secret"),
        ({}, "not-valid", "url"),
    ],
)
def test_an_unreachable_url_is_refused(alice: Agent, fields: dict[str, Any], code: str, words: str) -> None:
    for refused in (
        alice.post("/webhooks", fields),
        agent_at_webhook(alice).patch("", fields) if fields else None,
    ):
        if refused is not None:
            assert_problem(refused, 422, words)
            assert refused["type"].endswith(f"#{code}")
    assert Webhook.objects.exclude(url=URL).count() == 0


def test_a_private_address_can_be_allowed(alice: Agent, settings: Any) -> None:
    from ipaddress import ip_network

    settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = [ip_network("127.0.0.0/8")]
    assert new_webhook(alice, url="http://localhost:9000/hook")["url"] == "http://localhost:9000/hook"
    assert_problem(alice.post("/webhooks", {"url": "http://10.0.0.1/"}), 422, "not public")


def test_a_change_affects_only_the_fields_in_the_request(alice: Agent) -> None:
    webhook = agent_at_webhook(alice, events=["session.loop", "session.error"], description="Tell the team")
    assert webhook.get()["events"] == ["session.error", "session.loop"]
    changed = webhook.patch("", {"events": [], "state": "paused"})
    assert (changed["events"], changed["state"]) == ([], "paused")
    assert (changed["url"], changed["description"]) == (URL, "Tell the team")
    assert webhook.patch("", {}).body == changed.body
    assert_problem(webhook.patch("", {"state": "off"}), 422)


def test_a_disabled_webhook_gives_the_reason_and_can_be_enabled(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    since = timezone.now() - timedelta(days=4)
    Webhook.objects.update(state="off", note="All failed.", failures=12, failing_since=since)
    shown = webhook.get()
    assert (shown["state"], shown["note"], shown["failures"]) == ("off", "All failed.", 12)
    assert_problem(webhook.post("/tests"), 409, "switched off. Resume it first")
    on = webhook.patch("", {"state": "active"})
    assert (on["state"], on["note"], on["failures"], on["failing_since"]) == ("active", "", 0, None)


def test_after_a_rotation_both_secrets_sign_for_a_day(alice: Agent) -> None:
    first = new_webhook(alice)
    webhook = alice.within(f"/webhooks/{first['id']}")
    rotated = webhook.post("/secrets", headers={"Idempotency-Key": "one"})
    assert rotated["secret"] == secret_of(UUID(first["id"]), 2) != first["secret"]
    assert rotated["old_secret_until"] > timezone.now().isoformat()
    assert webhook.post("/secrets", headers={"Idempotency-Key": "one"}).body == rotated.body
    assert_problem(webhook.post("/secrets"), 409, "within the last day")
    Webhook.objects.update(rotated_at=timezone.now() - timedelta(days=2))
    assert webhook.get()["old_secret_until"] is None


def test_a_test_event_is_a_pending_delivery(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    sent = webhook.post("/tests")
    assert sent.status == 201
    assert (sent["event"], sent["state"], sent["session"]) == ("webhook.test", "pending", None)
    assert webhook.get()["waiting"] == 1
    (listed,) = webhook.get("/deliveries")["items"]
    assert listed == sent.body
    full = webhook.get(f"/deliveries/{sent['id']}")
    body = json.loads(full["body"])
    assert (body["type"], full["log"], full["last_attempt"]) == ("webhook.test", [], None)


def delivered(**fields: Any) -> WebhookDelivery:
    """The only delivery, after an attempt that failed."""
    entry = {
        "at": "2026-11-25T10:00:00Z", "status": 500, "milliseconds": 3, "error": "Failed.", "answer": "<b>",
    }  # fmt: skip
    row = WebhookDelivery.objects.get()
    for name, value in {"attempts": 1, "log": [entry], **fields}.items():
        setattr(row, name, value)
    row.save()
    return row


def test_a_delivery_has_its_last_and_its_next_attempt(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    id = webhook.post("/tests")["id"]
    soon = timezone.now() + timedelta(minutes=5)
    delivered(due_at=soon)
    shown = webhook.get(f"/deliveries/{id}")
    assert shown["last_attempt"] == shown["log"][-1]
    assert (shown["last_attempt"]["status"], shown["last_attempt"]["answer"]) == (500, "<b>")
    assert shown["next_attempt_at"][:19] == soon.isoformat()[:19]
    webhook.patch("", {"state": "paused"})
    assert webhook.get(f"/deliveries/{id}")["next_attempt_at"] is None


def test_a_delivery_is_sent_again_with_the_same_id(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    id = webhook.post("/tests")["id"]
    delivered(state="failed", finished_at=timezone.now(), retries=8)
    again = webhook.post(f"/deliveries/{id}/redeliveries")
    assert (again.status, again["id"], again["state"]) == (201, id, "pending")
    assert (again["finished_at"], again["attempts"]) == (None, 1)
    webhook.patch("", {"state": "paused"})
    assert_problem(webhook.post(f"/deliveries/{id}/redeliveries"), 409, "Resume it first")


def test_deliveries_are_paginated_and_filtered_by_state(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    ids = [webhook.post("/tests")["id"] for _ in range(3)][::-1]
    first = webhook.get("/deliveries?limit=2")
    second = webhook.get(f"/deliveries?limit=2&cursor={first['next']}")
    assert [item["id"] for item in [*first["items"], *second["items"]]] == ids
    assert second["next"] is None
    newest = WebhookDelivery.objects.order_by("-pk").first()
    assert newest is not None
    WebhookDelivery.objects.filter(pk=newest.pk).update(state="failed")
    assert [item["id"] for item in webhook.get("/deliveries?state=failed")["items"]] == ids[:1]
    assert [item["id"] for item in webhook.get("/deliveries?state=pending")["items"]] == ids[1:]
    assert_problem(webhook.get("/deliveries?state=succeeded"), 422)
    assert_problem(webhook.get("/deliveries?cursor=xyz"), 422, "another list")


def test_webhooks_are_paginated_oldest_first_with_few_queries(alice: Agent) -> None:
    ids = [new_webhook(alice)["id"] for _ in range(3)]
    first = alice.get("/webhooks?limit=2")
    second = alice.get(f"/webhooks?limit=2&cursor={first['next']}")
    assert [item["id"] for item in [*first["items"], *second["items"]]] == ids
    with CaptureQueriesContext(connection) as queries:
        alice.get("/webhooks")
    assert len(queries) == 3  # of the key, the webhooks and the pending deliveries


def test_a_webhook_is_deleted_with_its_deliveries(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    webhook.post("/tests")
    assert webhook.delete().status == 204
    assert_problem(webhook.get(), 404, "There is no webhook")
    assert not WebhookDelivery.objects.exists()


def test_the_deliveries_of_a_webhook_are_deleted_in_several_transactions(
    alice: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = agent_at_webhook(alice)
    for _ in range(5):
        webhook.post("/tests")
    left = list[tuple[int, str]]()

    @contextmanager
    def counted() -> Iterator[None]:
        with writing():
            yield
        states = Webhook.objects.values_list("state", flat=True)
        left.append((WebhookDelivery.objects.count(), "".join(states)))

    monkeypatch.setattr(short_transactions, "_FIRST_ROWS", 2)
    monkeypatch.setattr(short_transactions, "_MAX_ROWS", 2)
    monkeypatch.setattr(short_transactions, "writing", counted)
    monkeypatch.setattr(endpoints, "writing", counted)
    assert webhook.delete().status == 204
    assert left == [(5, "paused"), (3, "paused"), (1, "paused"), (0, "paused"), (0, "")]


def test_a_project_has_a_limit_of_webhooks(alice: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_WEBHOOKS", 1)
    new_webhook(alice)
    assert_problem(alice.post("/webhooks", {"url": URL}), 409, "at most 1 webhooks")


CALLS = [
    ("GET", "", None),
    ("PATCH", "", {"state": "paused"}),
    ("POST", "/secrets", {}),
    ("POST", "/tests", {}),
    ("GET", "/deliveries", None),
    ("GET", "/deliveries/msg_0197c7f41d007a118b305d1e2f3a4b52", None),
    ("POST", "/deliveries/msg_0197c7f41d007a118b305d1e2f3a4b52/redeliveries", {}),
    ("DELETE", "", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_the_webhook_of_another_project_is_not_found(
    alice: Agent, charlie: Agent, method: str, path: str, body: Any
) -> None:
    id = new_webhook(alice)["id"]
    sent = b"" if body is None else json.dumps(body).encode()
    for missing in (id, MISSING, "x", id[:-1]):
        response = charlie.send(method, f"/webhooks/{missing}{path}", sent)
        assert_problem(response, 404, f"There is no webhook {missing}.")
    assert charlie.get("/webhooks")["items"] == []


@pytest.mark.parametrize(("method", "path", "body"), [*CALLS, ("GET", "/..", None), ("POST", "/..", {})])
def test_every_operation_needs_admin(
    alice: Agent, project: Project, method: str, path: str, body: Any
) -> None:
    webhook = new_webhook(alice)
    writer = Agent(key_for(project, "writer", ("read", "write", "spend")))
    given = {"url": URL} if path == "/.." and method == "POST" else body
    target = "/webhooks" if path == "/.." else f"/webhooks/{webhook['id']}{path}"
    sent = b"" if given is None else json.dumps(given).encode()
    assert_problem(writer.send(method, target, sent), 403, "admin")


@pytest.mark.parametrize("id", ["x", "msg_x", MISSING, "msg_" + "0" * 32, "msg_" + "F" * 32])
def test_an_unknown_delivery_is_not_found(alice: Agent, id: str) -> None:
    webhook = agent_at_webhook(alice)
    assert_problem(webhook.get(f"/deliveries/{id}"), 404, f"This webhook has no delivery {id}.")
    assert_problem(webhook.post(f"/deliveries/{id}/redeliveries"), 404, "no delivery")


def test_changes_of_webhooks_are_audited(alice: Agent) -> None:
    webhook = agent_at_webhook(alice)
    id = webhook.post("/tests")["id"]
    for path in ("/secrets", f"/deliveries/{id}/redeliveries"):
        webhook.post(path)
    webhook.patch("", {"state": "paused"})
    webhook.delete()
    actions = [record.action for record in AuditRecord.objects.order_by("created_at")][1:]  # first, the key
    assert actions == [
        "make webhook", "test webhook", "rotate webhook secret", "redeliver webhook", "change webhook",
        "delete webhook",
    ]  # fmt: skip


def test_another_server_secret_gives_other_webhook_secrets(alice: Agent) -> None:
    first = new_webhook(alice)
    with override_settings(SECRET_KEY="another"):
        assert secret_of(UUID(first["id"]), 1) != first["secret"]
