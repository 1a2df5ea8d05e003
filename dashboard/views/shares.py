"""Making, listing and revoking the share links of a session."""

from datetime import timedelta
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.location import Location, find_location, page_context, read_number
from dashboard.share_list import session_links
from historyapp.core.errors import Invalid
from historyapp.models import ShareLink
from historyapp.models.shares import LONGEST_DAYS
from historyapp.services.shares import DEFAULT_DAYS, ShareOptions, create_share, revoke_share, share_path

NEW = "new_share"
"""Key of a person's browser session: the link that they just made, whose address the next page shows."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form and the list of links; POST makes a link, whose address the page then shows once."""
    if request.method == "POST":
        return _make(request, session_id)
    location = find_location(request, session_id)
    session = location.session
    context = {
        **page_context(request, location),
        "list": session_links(session, request.GET),
        "default_days": DEFAULT_DAYS,
        "longest_days": LONGEST_DAYS,
    }
    if request.htmx:
        return render(request, "_shares.html", context)
    made = _new_link(request, session_id) if request.method == "GET" else None
    return render(request, "shares.html", context | {"made": made, "made_path": made and share_path(made.pk)})


@signed_in
@require_POST
def revoke(request: PersonRequest, session_id: UUID, share_id: UUID) -> HttpResponse:
    """Revokes a link, and shows the list that it was revoked from."""
    session = find_session(request, session_id)
    revoke_share(session.project, share_id, session_id=session.pk, actor=actor(request))
    if request.POST.get("list") == "project":
        return redirect(reverse("project-settings") + "#share-links")
    return redirect("shares", session.pk)


def _make(request: PersonRequest, session_id: UUID) -> HttpResponse:
    location = find_location(request, session_id, read_number(request.POST, "step"))
    days = read_number(request.POST, "days")
    options = ShareOptions(
        as_of=_position(location) if request.POST.get("what") == "moment" else None,
        with_takes="takes" in request.POST,
        with_inputs="inputs" in request.POST,
        expires_at=timezone.now() + timedelta(days=_days(DEFAULT_DAYS if days is None else days)),
    )
    session = location.session
    share = create_share(session.project, session.pk, options, actor=actor(request))
    request.session[NEW] = str(share.pk)
    return redirect(f"{reverse('shares', args=[session.pk])}?{location.query}")


def _position(location: Location) -> int:
    """The end of the step in view; the session's end where it has no steps."""
    if not location.step:
        return location.session.head
    return location.history.row(location.step).last_position


def _days(days: int) -> int:
    if not 1 <= days <= LONGEST_DAYS:
        raise Invalid(f"A link is usable for 1 to {LONGEST_DAYS} days.")
    return days


def _new_link(request: PersonRequest, session_id: UUID) -> ShareLink | None:
    """The link that the person just made to this session; None once its address was shown."""
    made = request.session.get(NEW)
    share = ShareLink.objects.filter(pk=made, session=session_id).first() if made else None
    if share is not None:
        del request.session[NEW]
    return share
