"""Signatures are those of Standard Webhooks, and a rotation breaks no receiver."""

from datetime import timedelta

import pytest
from django.utils import timezone

from historyapp.core.errors import Conflict
from historyapp.models import Project, Webhook
from historyapp.services.webhooks.endpoints import create_webhook, rotate_secret, send_test
from historyapp.services.webhooks.signing import headers_of, secret_of, signature


def test_a_signature_equals_the_example_of_the_specification() -> None:
    """The example is from the libraries of standardwebhooks.com."""
    secret, message = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    made = signature(secret, message, 1614265330, '{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_each_webhook_has_its_own_secret_and_the_database_has_none(
    project: Project, webhook: Webhook
) -> None:
    other = create_webhook(project, webhook.url)
    secret = secret_of(webhook.pk, webhook.generation)
    assert secret.startswith("whsec_")
    assert secret != secret_of(other.pk, other.generation)
    stored = Webhook.objects.filter(pk=webhook.pk).values()[0]
    assert secret.removeprefix("whsec_")[:10] not in str(stored)


def test_both_secrets_sign_for_a_day_after_a_rotation(project: Project, webhook: Webhook) -> None:
    old = secret_of(webhook.pk, webhook.generation)
    rotated = rotate_secret(project, webhook.pk)
    new = secret_of(rotated.pk, rotated.generation)
    assert new != old
    delivery = send_test(project, webhook.pk)
    delivery.webhook = rotated
    for now, secrets in (
        (timezone.now(), [new, old]),
        (timezone.now() + timedelta(days=1, seconds=1), [new]),
    ):
        headers = headers_of(delivery, now)
        expected = [signature(one, delivery.message, int(now.timestamp()), delivery.body) for one in secrets]
        assert headers["webhook-signature"].split() == expected
    with pytest.raises(Conflict, match="wait until a day has passed"):
        rotate_secret(project, webhook.pk)
