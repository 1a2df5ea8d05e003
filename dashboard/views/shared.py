"""Share links: the session page for people without an account, below the address of the link.

The views of the session page answer requests below ``/s/<token>/``. The link determines the session,
its position and what is hidden. While they run, the link is the prefix of all addresses, and
``dashboard/shared_urls.py`` has all pages that templates can link to.
"""

from typing import cast

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import get_script_prefix, resolve, reverse, set_script_prefix, set_urlconf
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from dashboard.access import PersonRequest
from dashboard.errors import plain_page
from dashboard.location import read_number
from historyapp.core.errors import NotFound, PlayheadError
from historyapp.models import ShareLink
from historyapp.services.shares import count_opening, find_share

URLS = "dashboard.shared_urls"


@csrf_exempt  # so that a POST is answered with 405 even without a cookie
@require_safe
def shared(request: PersonRequest, token: str, rest: str) -> HttpResponseBase:
    """A page or fragment of a share link; without ``rest`` the session page at ``step``.

    Links that never existed, were altered, have expired or were revoked get the same response.
    """
    request.user = cast(User, AnonymousUser())
    try:
        share = request.share = find_share(token)
        prefix = get_script_prefix()
        set_script_prefix(f"{prefix}s/{token}/")
        set_urlconf(URLS)
        try:
            response = _answer(request, share, rest)
        finally:
            set_script_prefix(prefix)
            set_urlconf(None)
    except PlayheadError as error:
        response = plain_page(request, error, is_shared=True)
    # No cache may store it, so that a revoked link shows nothing.
    response["Cache-Control"] = "no-store, private"
    response["X-Robots-Tag"] = "noindex, nofollow"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _answer(request: PersonRequest, share: ShareLink, rest: str) -> HttpResponseBase:
    if not rest:
        # A link to a position opens at its last step.
        step = read_number(request.GET, "step") if share.as_of is None else -1
        if step is not None:
            step = min(step, share.session.steps)  # a rewind may have cut off the step
        query = f"?step={step}" if step else ""
        return redirect(reverse("session", args=[share.session_id]) + query)
    try:
        match = resolve(f"/{rest}", URLS)
    except Http404:
        raise NotFound("This link has no page at this address.") from None
    response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    if match.url_name == "session" and response.status_code == 200:
        count_opening(share)
    return response
