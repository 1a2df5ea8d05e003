"""A receiver at an allowed private address, a webhook to it, and a worker that runs in the test."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.utils import timezone

from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.services.webhooks.delivery import process_webhook
from historyapp.services.webhooks.endpoints import create_webhook
from tests.services.webhooks.receiver import Receiver

Work = Callable[[], None]


@pytest.fixture(autouse=True)
def _the_transaction_of_a_test_counts_as_ended(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        request.getfixturevalue("settled")


@pytest.fixture(autouse=True)
def _this_machine_is_allowed(settings: pytest.FixtureRequest) -> None:
    settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = [ip_network("127.0.0.1")]  # type: ignore[attr-defined]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def webhook(project: Project, receiver: Receiver) -> Webhook:
    return create_webhook(project, receiver.url)


@pytest.fixture
def work(webhook: Webhook) -> Work:
    """Works on the webhook as if all pauses had passed."""

    def work() -> None:
        past = timezone.now() - timedelta(seconds=1)
        Webhook.objects.filter(pk=webhook.pk, not_before__gt=past).update(not_before=past)
        WebhookDelivery.objects.filter(webhook=webhook, due_at__gt=past).update(due_at=past)
        process_webhook(webhook.pk, lambda: False)

    return work
