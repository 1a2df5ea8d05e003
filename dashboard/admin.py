"""Django's admin at ``/admin/``, for staff: every project's sessions and compressions, to look at.

All that it changes are two actions on sessions, each after a page that says what will happen.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.access import PersonRequest, actor
from dashboard.views.sign_in import sign_out
from historyapp.core.errors import Invalid, PlayheadError
from historyapp.models import AuditRecord, CompressionRun, Session
from historyapp.models.history import History
from historyapp.services.compression.start import RunRequest, estimate, start_run
from historyapp.services.prices import money_text
from historyapp.services.rewinds import Target, last_good_step, rewind

if TYPE_CHECKING:
    Admin = admin.ModelAdmin[Any]
else:
    Admin = admin.ModelAdmin

MOST_AT_ONCE = 100
"""Sessions of one action: each is looked at before the page that asks."""
_SEEN = re.compile(r"([0-9]{1,9})@([0-9]{1,9})")
_BIG_COLUMNS = ("closed_spans", "fork_spans", "tail", "metadata")


class PlayheadAdmin(admin.AdminSite):
    """People come in as everywhere else in Playhead; those who are no staff get no further."""

    site_header = site_title = "Playhead administration"
    index_title = "All projects"
    enable_nav_sidebar = False

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.is_authenticated:
            raise PermissionDenied("The administration is for staff.")
        return redirect_to_login(request.GET.get("next") or request.get_full_path())

    def logout(  # type: ignore[override]  # any answer will do
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return sign_out(request)


class ReadOnly(Admin):
    """Rows to look at."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class Prospect(NamedTuple):
    """What an action would do to a session."""

    session: Session
    words: str
    seen: str = ""
    """What comes back with the confirmation; empty: there is nothing to do."""


class Deed(NamedTuple):
    """An action on sessions."""

    name: str
    title: str
    look: Callable[[Session], Prospect]
    do: Callable[[PersonRequest, Session, str], str]
    """With what its prospect had ``seen``; returns what has been done, after the session's name."""


class SessionAdmin(ReadOnly):
    list_display = ("id", "title", "agent", "model", "project", "status", "steps", "errors", "last_entry_at")
    list_filter = ("status", "project", "last_entry_at")
    search_fields = ("title", "agent", "tags_text")
    list_select_related = ("project",)
    ordering = ("-last_entry_at", "-id")
    actions = ("compress", "rewind_to_the_last_good_step")
    fields = (
        "id", "page", "project", "title", "agent", "model", "status", "tags_text", "head", "steps", "errors",
        "tokens", "settings", "forked_from", "fork_position", "created_at", "last_entry_at",
    )  # fmt: skip
    readonly_fields = ("page",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        return cast(QuerySet[Session], super().get_queryset(request).defer(*_BIG_COLUMNS))

    @admin.display(description="in the dashboard")
    def page(self, session: Session) -> SafeString:
        return format_html('<a href="/sessions/{}">its steps</a>, for members of its project', session.pk)

    def has_act_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("historyapp.change_session")

    @admin.action(description="Compress", permissions=("act",))
    def compress(self, request: HttpRequest, chosen: QuerySet[Session]) -> HttpResponse | None:
        return self._act(request, chosen, COMPRESS)

    @admin.action(description="Rewind to the last good step", permissions=("act",))
    def rewind_to_the_last_good_step(
        self, request: HttpRequest, chosen: QuerySet[Session]
    ) -> HttpResponse | None:
        return self._act(request, chosen, REWIND)

    def _act(self, request: HttpRequest, chosen: QuerySet[Session], deed: "Deed") -> HttpResponse | None:
        """Asks first; does it once that comes back confirmed."""
        sessions = list(chosen.defer(None)[: MOST_AT_ONCE + 1])
        if len(sessions) > MOST_AT_ONCE:
            self.message_user(request, f"Choose {MOST_AT_ONCE} sessions at most.", messages.ERROR)
            return None
        if "confirmed" in request.POST:
            self._do(cast(PersonRequest, request), sessions, deed)
            return None
        prospects = [_prospect(deed, session) for session in sessions]
        context = {
            **self.admin_site.each_context(request),
            "title": deed.title,
            "opts": self.model._meta,
            "prospects": prospects,
            "possible": [prospect for prospect in prospects if prospect.seen],
            "checkbox": ACTION_CHECKBOX_NAME,
            "action": deed.name,
        }
        return render(request, "admin/confirm_action.html", context)

    def _do(self, request: PersonRequest, sessions: Iterable[Session], deed: "Deed") -> None:
        for session in sessions:
            try:
                done = deed.do(request, session, request.POST.get(f"seen-{session.pk}", ""))
            except PlayheadError as error:
                self.message_user(request, f"{_name(session)}: {error.detail}", messages.ERROR)
            else:
                self.message_user(request, f"{_name(session)}: {done}", messages.SUCCESS)


def _prospect(deed: "Deed", session: Session) -> Prospect:
    try:
        return deed.look(session)
    except PlayheadError as error:
        return Prospect(session, error.detail)


def _compression(session: Session) -> Prospect:
    told = estimate(session, RunRequest())
    if not told.steps:
        return Prospect(session, "There is nothing to compress: its newest steps stay in full.")
    money = money_text(told.cost, told.prices_as_of)
    by = f"{told.strategy} with {told.model}" if told.model else told.strategy
    steps = f"Steps {told.first_step:,} to {told.last_step:,}, {told.tokens_before:,} tokens"
    calls = f": {told.calls:,} calls of the model at most, {money}" if told.calls else ""
    return Prospect(session, f"{steps}, by {by}{calls}. {told.note}".strip(), "yes")


def _compress(request: PersonRequest, session: Session, seen: str) -> str:
    started = start_run(session.project, session.pk, RunRequest(), actor=actor(request))
    if started.run.active:
        from historyapp import tasks  # Celery is loaded by the first compression, not by the server's start

        transaction.on_commit(partial(tasks.wake, started.run.pk), robust=True)
    if started.joined:
        return "a compression is under way already."
    return "its compression has been started." if started.run.active else started.run.note


def _way_back(session: Session) -> Prospect:
    history = History(session)
    good = last_good_step(history)
    if good is None:
        return Prospect(session, "It has no good step to go back to.")
    if good == history.steps:
        return Prospect(session, "Nothing to do: its newest step is a good one.")
    cut = f"step {history.steps:,}"
    if history.steps > good + 1:
        cut = f"steps {good + 1:,} to {history.steps:,}"
    words = f"Back to the end of step {good:,}. Cuts off {cut}, which stay readable as a take."
    return Prospect(session, words, f"{good}@{session.head}")


def _rewind(request: PersonRequest, session: Session, seen: str) -> str:
    found = _SEEN.fullmatch(seen)
    if found is None:
        raise Invalid("This session was not asked about. Choose the action again.")
    step, head = int(found[1]), int(found[2])
    rewind(
        session.project,
        session.pk,
        Target(to_step=step),
        reason="back to the last good step",
        actor=actor(request),
        expected_position=head,
    )
    return f"it goes on after step {step:,}."


COMPRESS = Deed("compress", "Compress", _compression, _compress)
REWIND = Deed("rewind_to_the_last_good_step", "Rewind to the last good step", _way_back, _rewind)


def _name(session: Session) -> str:
    return session.title or str(session.pk)


class RunAdmin(ReadOnly):
    list_display = ("id", "session", "strategy", "model", "state", "total", "done", "failed", "created_at")
    list_filter = ("state", "strategy", "automatic", "trial", "created_at")
    ordering = ("-id",)
    raw_id_fields = ("session",)


class AuditAdmin(ReadOnly):
    list_display = ("created_at", "project", "actor", "action", "session")
    list_filter = ("project", "created_at")
    search_fields = ("actor", "action")
    list_select_related = ("project",)
    ordering = ("-created_at", "-id")


site = PlayheadAdmin()
site.register(Session, SessionAdmin)
site.register(CompressionRun, RunAdmin)
site.register(AuditRecord, AuditAdmin)
