"""Signing in, by a link that works once or by a password, and signing out."""

import shlex
from urllib.parse import urlsplit

from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.forms.password import PasswordForm
from historyapp.core.errors import NotFound
from historyapp.services.devices import remember_device
from historyapp.services.keys import SIGN_IN_MINUTES, check_sign_in_link, default_address, use_sign_in_link

BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The password form, and the command that prints a sign-in link."""
    to = local_path(request, request.POST.get("next") or request.GET.get("next"))
    if request.user.is_authenticated:
        return redirect(to)
    form = PasswordForm(request, data=request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = form.get_user()
        login(request, user)
        response = redirect(to)
        remember_device(response, user.get_username(), is_secure=request.is_secure())
        return response
    context = {"form": form, "next": to, "command": link_command(request)}
    page = render(request, "account/sign_in.html", context, status=422 if form.errors else 200)
    if form.retry_after:
        page.status_code, page["Retry-After"] = 429, str(form.retry_after)
    return page


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Shows a button first, because programs that preview links would use up the link."""
    try:
        if request.method != "POST":
            check_sign_in_link(token)
            return render(request, "account/sign_in_by_link.html", {"minutes": SIGN_IN_MINUTES})
        user = use_sign_in_link(token)
    except NotFound as error:
        context = {"form": PasswordForm(request), "next": "/", "command": link_command(request)}
        return render(request, "account/sign_in.html", context | {"problem": error.detail}, status=404)
    login(request, user, backend=BACKEND)
    response = redirect("sessions")
    remember_device(response, user.get_username(), is_secure=request.is_secure())
    return response


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


def link_command(request: HttpRequest) -> str:
    """The command that prints a sign-in link for the address of this page."""
    if request.get_host() == urlsplit(default_address()).netloc:
        return "playhead sign-in"
    return f"playhead sign-in --address {shlex.quote(f'{request.scheme}://{request.get_host()}')}"


def local_path(request: HttpRequest, path: str | None) -> str:
    """The path if it stays on this server, else the first page. Without a slash, it would name a view."""
    allowed = {request.get_host()}
    safe = url_has_allowed_host_and_scheme(path, allowed, require_https=request.is_secure())
    return path if path and "/" in path and safe else "/"
