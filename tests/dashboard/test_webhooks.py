"""The pages of webhooks: an owner adds, tests, pauses and deletes them, and reads their deliveries."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.models.webhooks import EVENTS
from historyapp.services.webhooks.endpoints import create_webhook, send_test
from historyapp.services.webhooks.signing import secret_of
from tests.dashboard.pages import fragment, html, text

URL = "https://hooks.example.com/services/T000/token"


@pytest.fixture
def webhook(project: Project) -> Webhook:
    return create_webhook(project, URL, description="Tell <b>the team")


@pytest.fixture
def message(project: Project, webhook: Webhook) -> str:
    """The id of a test delivery that failed once."""
    sent = send_test(project, webhook.pk)
    sent.attempts, sent.due_at = 1, timezone.now() + timedelta(minutes=5)
    sent.log = [
        {
            "at": "2026-11-25T10:00:00.000Z", "status": 500, "milliseconds": 31,
            "error": "The target answered with the status 500.", "answer": "<script>alert(1)</script>",
        }
    ]  # fmt: skip
    sent.save()
    return sent.message


def webhook_path(webhook: Webhook, path: str = "") -> str:
    return f"/webhooks/{webhook.pk}{path}"


def test_an_owner_adds_a_webhook_and_sees_its_secret_once(alice: Client) -> None:
    assert "There are no webhooks yet." in text(alice.get("/webhooks"))
    made = alice.post("/webhooks", {"url": f" {URL} ", "description": "Team", "events": EVENTS})
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.events, made["Location"]) == (URL, [], webhook_path(webhook))
    secret = secret_of(webhook.pk, 1)
    assert secret in html(alice.get(made["Location"]))
    assert secret not in html(alice.get(made["Location"]))
    assert "Team" in text(alice.get("/webhooks"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "https://10.0.0.1/", "events": EVENTS}, "is not public"),
        ({"url": "http://example.com/", "events": EVENTS}, "must begin with https://"),
        ({"url": "http://127.0.0.1/", "events": EVENTS}, "ADDRESSES can allow http:// to private"),
        ({"url": "", "events": EVENTS}, "must begin with https://"),
        ({"url": URL, "events": ["nothing"]}, "Choose at least one event."),
    ],
)
def test_a_refused_form_keeps_its_values(
    alice: Client, webhook: Webhook, fields: dict[str, Any], words: str
) -> None:
    for address in ("/webhooks", webhook_path(webhook)):
        refused = alice.post(address, fields)
        assert (refused.status_code, words in text(refused)) == (422, True), text(refused)
        assert f'value="{fields["url"]}"' in html(refused)
    webhook.refresh_from_db()
    assert (webhook.url, Webhook.objects.count()) == (URL, 1)


def test_a_description_can_have_any_characters(alice: Client, webhook: Webhook) -> None:
    for address in ("/webhooks", webhook_path(webhook)):
        sent = {"url": URL, "description": "the \x00 team", "events": EVENTS}
        assert alice.post(address, sent).status_code == 302
    assert {row.description for row in Webhook.objects.all()} == {"the \ufffd team"}


def test_an_owner_changes_address_and_events(alice: Client, webhook: Webhook) -> None:
    other = "https://other.example.com/"
    saved = alice.post(webhook_path(webhook), {"url": other, "description": "", "events": ["session.loop"]})
    assert "Saved." in text(alice.get(saved["Location"]))
    webhook.refresh_from_db()
    assert (webhook.url, webhook.events) == (other, ["session.loop"])
    page = html(alice.get(webhook_path(webhook)))
    assert page.count(" checked") == 1


def test_a_test_is_sent_and_its_page_loads_again_until_it_has_arrived(
    alice: Client, webhook: Webhook
) -> None:
    sent = alice.post(webhook_path(webhook, "/tests"))
    page = alice.get(sent["Location"])
    assert "The delivery is sent within seconds." in text(page)
    assert 'hx-trigger="every 1s"' in html(page)
    delivery = WebhookDelivery.objects.get()
    delivery.state, delivery.attempts = "succeeded", 1
    delivery.log = [
        {"at": "2026-11-25T10:00:00Z", "status": 204, "milliseconds": 8, "error": "", "answer": ""}
    ]
    delivery.save()
    loaded = fragment(alice, sent["Location"], target="attempts")
    assert "hx-trigger" not in html(loaded)
    assert "status 204 · 8 ms" in text(loaded)


def test_a_delivery_shows_its_attempts_as_untrusted_text(
    alice: Client, webhook: Webhook, message: str
) -> None:
    page = alice.get(webhook_path(webhook, f"/deliveries/{message}"))
    assert "<script>alert" not in html(page)
    for words in ("status 500 · 31 ms", "<script>alert(1)</script>", "Next attempt at", '"webhook.test"'):
        assert words in text(page)
    listed = text(alice.get(webhook_path(webhook)))
    assert "waiting next attempt at" in listed


def test_a_delivery_is_sent_again(alice: Client, webhook: Webhook, message: str) -> None:
    WebhookDelivery.objects.update(state="failed")
    assert "failed" in text(alice.get(webhook_path(webhook, "?state=failed")))
    sent = alice.post(webhook_path(webhook, f"/deliveries/{message}/redeliveries"))
    assert sent["Location"] == webhook_path(webhook, f"/deliveries/{message}")
    assert WebhookDelivery.objects.get().state == "pending"


def test_older_deliveries_are_on_further_pages(
    alice: Client, project: Project, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.views.webhooks.PAGE", 2)
    ids = [send_test(project, webhook.pk).message for _ in range(3)]
    first = html(alice.get(webhook_path(webhook)))
    assert [id in first for id in ids] == [False, True, True]
    oldest = WebhookDelivery.objects.order_by("pk")[1]
    assert f"?cursor={oldest.pk}" in first
    second = html(alice.get(webhook_path(webhook, f"?cursor={oldest.pk}")))
    assert [id in second for id in ids] == [True, False, False]
    assert "No delivery has failed." in text(alice.get(webhook_path(webhook, "?state=failed")))


def test_a_disabled_webhook_is_shown_on_three_pages_and_can_be_enabled_again(
    alice: Client, bob: Client, webhook: Webhook
) -> None:
    Webhook.objects.update(
        state="off", note="Every attempt failed.", failures=12, failing_since=timezone.now() - timedelta(4)
    )
    for address in ("/", "/project"):
        page = alice.get(address)
        assert "The webhook to hooks.example.com was switched off: Every attempt failed." in text(page)
        assert "token" not in text(page)
        assert "switched off" not in text(bob.get(address))
    page = alice.get(webhook_path(webhook))
    assert "Switched off. Every attempt failed." in text(page)
    assert "Send a test" not in text(page)
    alice.post(webhook_path(webhook, "/state"), {"state": "active"})
    webhook.refresh_from_db()
    assert (webhook.state, webhook.note) == ("active", "")
    assert "switched off" not in text(alice.get("/"))


def test_an_owner_pauses_a_webhook(alice: Client, webhook: Webhook) -> None:
    alice.post(webhook_path(webhook, "/state"), {"state": "paused"})
    webhook.refresh_from_db()
    assert webhook.state == "paused"
    assert "Switch on" in text(alice.get(webhook_path(webhook)))
    assert alice.post(webhook_path(webhook, "/tests")).status_code == 409


def test_a_replaced_secret_is_shown_once(alice: Client, webhook: Webhook) -> None:
    replaced = alice.post(webhook_path(webhook, "/secrets"))
    secret = secret_of(webhook.pk, 2)
    page = alice.get(replaced["Location"])
    assert secret in html(page)
    assert "also signed with the previous secret" in text(page)
    assert secret not in html(alice.get(replaced["Location"]))
    assert alice.post(webhook_path(webhook, "/secrets")).status_code == 409


def test_an_owner_deletes_a_webhook(alice: Client, webhook: Webhook, message: str) -> None:
    assert alice.post(webhook_path(webhook, "/delete"))["Location"] == "/webhooks"
    assert not Webhook.objects.exists()


CALLS = [
    ("get", ""), ("post", ""), ("post", "/state"), ("post", "/tests"), ("post", "/secrets"),
    ("post", "/delete"), ("get", "/deliveries/MESSAGE"), ("post", "/deliveries/MESSAGE/redeliveries"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_members_are_refused_and_strangers_find_nothing(
    bob: Client, charlie: Client, webhook: Webhook, message: str, method: str, path: str
) -> None:
    address = webhook_path(webhook, path.replace("MESSAGE", message))
    before = list(Webhook.objects.values())
    refused, missing = getattr(bob, method)(address), getattr(charlie, method)(address)
    assert (refused.status_code, missing.status_code) == (403, 404)
    assert "Only an owner of the project" in text(refused)
    assert URL not in html(refused) + html(missing)
    assert list(Webhook.objects.values()) == before


def test_a_member_gets_no_list_and_a_stranger_gets_their_own(
    bob: Client, charlie: Client, webhook: Webhook
) -> None:
    assert bob.get("/webhooks").status_code == 403
    assert bob.post("/webhooks", {"url": URL, "events": EVENTS}).status_code == 403
    assert "There are no webhooks yet." in text(charlie.get("/webhooks"))
    assert "Manage webhooks" not in text(bob.get("/project"))


@pytest.mark.parametrize("id", ["x", "msg_x", "msg_" + "0" * 32])
def test_an_unknown_delivery_is_not_found(alice: Client, webhook: Webhook, id: str) -> None:
    assert alice.get(webhook_path(webhook, f"/deliveries/{id}")).status_code == 404
