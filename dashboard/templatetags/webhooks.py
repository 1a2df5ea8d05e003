"""Template tags and filters for webhooks."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django import template
from django.db.models import QuerySet
from django.template import RequestContext
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.rendering.text import visible
from dashboard.templatetags.playhead import icon, since
from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.models.compiled import CompiledQuery

register = template.Library()

_STATES = {
    "active": ("check", "active"),
    "paused": ("pause", "paused"),
    "off": ("alert", "switched off"),
    "pending": ("clock", "waiting"),
    "succeeded": ("check", "delivered"),
    "failed": ("cross", "failed"),
}
"""Icon and word of each state of a webhook or a delivery."""
_EVENTS = {
    "session.started": "A session begins",
    "session.ended": "A session ends",
    "session.error": "A step ends in an error",
    "session.loop": "An agent is probably stuck in a loop",
    "budget.reached": "A spending cap refuses a model call",
    "compression.finished": "A compression has ended",
    "webhook.test": "A test",
}


@register.simple_tag
def webhook_state(row: Webhook | WebhookDelivery) -> SafeString:
    picture, word = _STATES[row.state]
    return format_html('<span class="outcome state-{}">{}{}</span>', row.state, icon(picture), word)


@register.filter
def event_label(event: str) -> str:
    """When an event is sent, in words."""
    return _EVENTS.get(event, event)


@register.filter
def host(url: str) -> str:
    """The host of an address: the rest often holds tokens."""
    return visible(urlsplit(url).netloc or url)[:100]


@register.filter
def attempt_time(entry: Mapping[str, Any]) -> SafeString | str:
    """When an attempt was made."""
    moment = parse_datetime(str(entry.get("at", "")))
    return since(moment) if moment else ""


def _webhooks_off(project: UUID, user: int) -> "QuerySet[Webhook]":
    off = Webhook.objects.filter(project=project, state=Webhook.State.OFF)
    owned = off.filter(project__membership__user=user, project__membership__is_owner=True)
    return owned.order_by("pk")[:5]


_WEBHOOKS_OFF = CompiledQuery(_webhooks_off, UUID(int=1), 1 << 30)


@register.simple_tag(takes_context=True)
def webhooks_off(context: RequestContext, project: Project) -> list[Webhook]:
    """The webhooks that the server has switched off, for an owner of the project; nothing for others."""
    return _WEBHOOKS_OFF.rows(project.pk, context["user"].pk)
