"""Webhooks of a project: the list, one webhook with its deliveries, and one delivery. For owners only."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access import PersonRequest, actor, current_project, is_owner, projects, signed_in
from dashboard.forms.webhook import WebhookForm
from dashboard.location import read_number
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import Project, Webhook, WebhookDelivery
from historyapp.models.webhooks import EVENTS
from historyapp.services.webhooks.endpoints import (
    change_webhook,
    create_webhook,
    delete_webhook,
    deliveries_of,
    find_delivery,
    message_uuid,
    next_attempt,
    old_secret_until,
    redeliver,
    rotate_secret,
    send_test,
    waiting_counts,
)
from historyapp.services.webhooks.signing import secret_of
from historyapp.wire.problems import Forbidden

PAGE = 25
"""Deliveries on one page."""
_SHOWN_ONCE = "webhook_secret"
"""Key of a person's browser session: the webhook whose new secret the next page shows."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: PersonRequest) -> HttpResponse:
    """The webhooks of the chosen project, and the form for a new one; POST creates it."""
    project = current_project(request, projects(request))
    _check_owner(request, project)
    form, refusal = WebhookForm(events=EVENTS), ""
    if request.method == "POST":
        form = WebhookForm.read(request.POST)
        try:
            webhook = create_webhook(
                project,
                form.url,
                events=form.chosen,
                description=form.description,
                actor=actor(request),
            )
        except (Invalid, Conflict) as error:
            refusal = error.detail
        else:
            return _show_secret(request, webhook)
    rows = list(Webhook.objects.filter(project=project).order_by("pk"))
    waiting = waiting_counts(rows)
    listed = [(row, waiting.get(row.pk, 0)) for row in rows]
    context = {"project": project, "webhooks": listed, "form": form, "refusal": refusal, "all_events": EVENTS}
    return _render(request, "webhooks/page.html", context, status=422 if refusal else 200)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: PersonRequest, webhook_id: UUID) -> HttpResponse:
    """One webhook with its deliveries, for htmx only the deliveries; POST changes its address and events."""
    row = _find(request, webhook_id)
    form, refusal = WebhookForm(row.url, row.description, row.selected_events), ""
    if request.method == "POST":
        form = WebhookForm.read(request.POST)
        try:
            changes = {"url": form.url, "description": form.description, "events": form.chosen}
            change_webhook(row.project, row.pk, changes, actor=actor(request))
        except Invalid as error:
            refusal = error.detail
        else:
            return redirect(reverse("webhook", args=[row.pk]) + "?saved=1")
    context = {"webhook": row, **_deliveries(request, row)}
    if request.htmx and request.htmx.target == "deliveries":
        return render(request, "webhooks/_deliveries.html", context)
    context |= {"project": row.project, "form": form, "refusal": refusal, "all_events": EVENTS}
    context |= {"saved": "saved" in request.GET, "old_secret_until": old_secret_until(row)}
    if request.session.get(_SHOWN_ONCE) == str(row.pk):
        del request.session[_SHOWN_ONCE]
        context["secret"] = secret_of(row.pk, row.generation)
    return _render(request, "webhooks/webhook.html", context, status=422 if refusal else 200)


def _deliveries(request: PersonRequest, row: Webhook) -> dict[str, Any]:
    """One page of the deliveries."""
    state = request.GET.get("state", "")
    state = state if state in ("pending", "failed") else ""
    before = read_number(request.GET, "cursor")
    deliveries = deliveries_of(row, PAGE + 1, state=state or None, before=before)
    page = deliveries[:PAGE]
    now, is_active = timezone.now(), row.state == Webhook.State.ACTIVE
    return {
        "deliveries": [(delivery, next_attempt(delivery)) for delivery in page],
        "older": page[-1].pk if len(deliveries) > PAGE else None,
        "only": state,
        "is_first_page": before is None,
        # A delivery that is tried within seconds appears on the page after the attempt.
        "is_under_way": is_active and any(_is_soon(delivery, now) for delivery in page),
    }


def _is_soon(delivery: WebhookDelivery, now: datetime) -> bool:
    due = next_attempt(delivery)
    return due is not None and (due - now).total_seconds() < 30


@signed_in
@require_POST
def switch_webhook(request: PersonRequest, webhook_id: UUID) -> HttpResponse:
    """Pauses a webhook, or switches it on."""
    row = _find(request, webhook_id)
    state = "active" if request.POST.get("state") == "active" else "paused"
    change_webhook(row.project, row.pk, {"state": state}, actor=actor(request))
    return redirect("webhook", row.pk)


@signed_in
@require_POST
def test_webhook(request: PersonRequest, webhook_id: UUID) -> HttpResponse:
    """Sends a test event, and redirects to its delivery."""
    row = _find(request, webhook_id)
    sent = send_test(row.project, row.pk, actor=actor(request))
    return redirect("webhook-delivery", row.pk, sent.message)


@signed_in
@require_POST
def rotate_webhook(request: PersonRequest, webhook_id: UUID) -> HttpResponse:
    """Gives a webhook a new secret, and shows it once."""
    row = _find(request, webhook_id)
    return _show_secret(request, rotate_secret(row.project, row.pk, actor=actor(request)))


@signed_in
@require_POST
def remove_webhook(request: PersonRequest, webhook_id: UUID) -> HttpResponse:
    """Deletes a webhook, and redirects to the list."""
    row = _find(request, webhook_id)
    delete_webhook(row.project, row.pk, actor=actor(request))
    return redirect("webhooks")


@signed_in
@require_safe
def delivery(request: PersonRequest, webhook_id: UUID, message: str) -> HttpResponse:
    """The body of a delivery and the outcome of each attempt; for htmx only the attempts."""
    row = _find(request, webhook_id)
    delivery_row = find_delivery(row, message_uuid(message))
    context = {
        "webhook": row,
        "delivery": delivery_row,
        "next_attempt": next_attempt(delivery_row),
        "is_under_way": _is_soon(delivery_row, timezone.now()),
        "project": row.project,
    }
    if request.htmx and request.htmx.target == "attempts":
        return render(request, "webhooks/_attempts.html", context)
    return _render(request, "webhooks/delivery.html", context)


@signed_in
@require_POST
def redeliver_message(request: PersonRequest, webhook_id: UUID, message: str) -> HttpResponse:
    """Sends a delivery again."""
    row = _find(request, webhook_id)
    sent = redeliver(row.project, row.pk, message_uuid(message), actor=actor(request))
    return redirect("webhook-delivery", row.pk, sent.message)


def _find(request: PersonRequest, webhook_id: UUID) -> Webhook:
    """The webhook of a project that the person owns.

    Raises:
        NotFound: when they are not in its project.
        Forbidden: when they do not own it.
    """
    rows = Webhook.objects.filter(pk=webhook_id, project__members=request.user).select_related("project")
    row = rows.first()
    if row is None:
        raise NotFound(f"There is no webhook {webhook_id}.")
    _check_owner(request, row.project)
    return row


def _check_owner(request: PersonRequest, project: Project) -> None:
    if not is_owner(request, project):
        raise Forbidden("Only an owner of the project can see and change its webhooks.")


def _show_secret(request: PersonRequest, row: Webhook) -> HttpResponse:
    """Redirects to the webhook, where the secret is shown once. The secret is derived, not stored."""
    request.session[_SHOWN_ONCE] = str(row.pk)
    return redirect("webhook", row.pk)


def _render(
    request: PersonRequest, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    return render(request, template, {"projects": projects(request), **context}, status=status)
