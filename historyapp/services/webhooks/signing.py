"""Secrets and signatures as Standard Webhooks (standardwebhooks.com) describes them.

A secret is derived from ``SECRET_KEY``, the webhook's id and the number of its rotations. So secrets are not
stored, and a copy of the database reveals none.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.conf import settings

from historyapp.models.webhooks import WebhookDelivery

PREFIX = "whsec_"


def secret_of(webhook: UUID, generation: int) -> str:
    """The secret, ``whsec_…``. Receivers verify signatures with it."""
    message = f"webhook {webhook} secret {generation}".encode()
    return PREFIX + b64encode(hmac.digest(settings.SECRET_KEY.encode(), message, "sha256")).decode()


def signature(secret: str, message: str, timestamp: int, body: str) -> str:
    """``v1,`` and the base64 of the HMAC-SHA256 of id, time (seconds since 1970) and body."""
    key = b64decode(secret.removeprefix(PREFIX))
    signed = f"{message}.{timestamp}.{body}".encode()
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def headers_of(delivery: WebhookDelivery, now: datetime) -> Mapping[str, str]:
    """The headers of one attempt. For a day after a rotation, both secrets sign."""
    webhook, timestamp = delivery.webhook, int(now.timestamp())
    secrets = [secret_of(webhook.pk, generation) for generation in webhook.generations(now)]
    signatures = [signature(secret, delivery.message, timestamp, delivery.body) for secret in secrets]
    return {
        "content-type": "application/json",
        "user-agent": "Playhead-Webhooks/1",
        "webhook-id": delivery.message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
