"""Creating, listing and revoking the share links of a session."""

from datetime import timedelta
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.location import find_location, page_context, read_number
from dashboard.share_list import session_links
from historyapp.core.errors import Invalid
from historyapp.models import ShareLink
from historyapp.models.shares import MAX_DAYS
from historyapp.services.shares import DEFAULT_DAYS, ShareOptions, create_share, revoke_share, share_path

NEW = "new_share"
"""Key of a person's browser session: the link that they just made, whose address the next page shows."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form and the list of links; POST creates a link, whose address the page then shows once."""
    if request.method == "POST":
        return _create(request, session_id)
    location = find_location(request, session_id)
    session = location.session
    context = {
        **page_context(request, location),
        "list": session_links(session, request.GET),
        "default_days": DEFAULT_DAYS,
        "longest_days": MAX_DAYS,
    }
    if request.htmx:
        return render(request, "shares/_shares.html", context)
    if request.method == "GET" and (new_id := request.session.get(NEW)):
        new_link = ShareLink.objects.filter(pk=new_id, session=session_id).first()
        if new_link is not None:
            del request.session[NEW]
            opens_at = f"?step={location.step}" if new_link.as_of is None and location.step else ""
            context |= {"made": new_link, "made_path": share_path(new_link.pk) + opens_at}
    return render(request, "shares/page.html", context)


@signed_in
@require_POST
def revoke(request: PersonRequest, session_id: UUID, share_id: UUID) -> HttpResponse:
    """Revokes a link, and shows the list that it was revoked from."""
    session = find_session(request, session_id)
    revoke_share(session.project, share_id, session_id=session.pk, actor=actor(request))
    if request.POST.get("list") == "project":
        return redirect(reverse("project-settings") + "#share-links")
    return redirect(f"{reverse('shares', args=[session.pk])}?{request.GET.urlencode()}")


def _create(request: PersonRequest, session_id: UUID) -> HttpResponse:
    location = find_location(request, session_id, read_number(request.POST, "step"))
    days = read_number(request.POST, "days")
    days = DEFAULT_DAYS if days is None else days
    if not 1 <= days <= MAX_DAYS:
        raise Invalid(f"A link must expire after 1 to {MAX_DAYS} days.")
    as_of = None
    if request.POST.get("what") == "moment":  # the end of the step in view
        row = location.history.row(location.step) if location.step else None
        as_of = row.last_position if row else location.session.head
    options = ShareOptions(
        as_of=as_of,
        with_takes="takes" in request.POST,
        with_inputs="inputs" in request.POST,
        expires_at=timezone.now() + timedelta(days=days),
    )
    session = location.session
    share = create_share(session.project, session.pk, options, actor=actor(request))
    request.session[NEW] = str(share.pk)
    return redirect(f"{reverse('shares', args=[session.pk])}?{location.query}")
