"""Django's admin at ``/admin/``, for staff: a read-only view of every project's sessions and compressions.

An action on sessions runs after a confirmation page that shows what it will do. Actions on keys grant and
withdraw the scope spend.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.access import PersonRequest, actor, spender
from dashboard.forms.accepted import accepted_text, read_accepted
from dashboard.views.compression_forms import wake_workers
from dashboard.views.sign_in import sign_out
from historyapp.core.dates import known_time
from historyapp.core.errors import Invalid, PlayheadError
from historyapp.models import ApiKey, AuditRecord, CompressionRun, Project, Session
from historyapp.models.history import History
from historyapp.services.compression.request import RunRequest, estimate
from historyapp.services.compression.start import start_run
from historyapp.services.keys import change_scopes
from historyapp.services.prices import money_text
from historyapp.services.rewinds import Target, last_good_step, rewind

if TYPE_CHECKING:
    Admin = admin.ModelAdmin[Any]
else:
    Admin = admin.ModelAdmin

MAX_AT_ONCE = 100
"""The maximum number of sessions of one action: the confirmation page previews each of them."""
NOT_SHOWN = "The confirmation page did not show this session. Choose the action again."
_CONFIRMATION = re.compile(r"([0-9]{1,9})@([0-9]{1,9})")
_BIG_COLUMNS = ("closed_spans", "fork_spans", "tail", "metadata")


class PlayheadAdmin(admin.AdminSite):
    """The pages are for staff. People sign in as on all other pages."""

    site_header = site_title = "Playhead administration"
    index_title = "All projects"
    enable_nav_sidebar = False

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.is_authenticated:
            raise PermissionDenied(
                "Only staff may open the administration pages. Ask an administrator for access."
            )
        return redirect_to_login(request.GET.get("next") or request.get_full_path())

    def logout(  # type: ignore[override]  # Django declares another response class
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return sign_out(request)


class ReadOnly(Admin):
    """An admin page on which rows cannot be added, changed or deleted."""

    list_per_page = 50
    show_full_result_count = False

    def _never(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never


class ActionPreview(NamedTuple):
    """What an action would do to a session."""

    session: Session
    text: str
    confirmation: str = ""
    """The form sends it back; empty if there is nothing to do."""


class SessionAction(NamedTuple):
    """An action on sessions."""

    name: str
    title: str
    preview: Callable[[Session], ActionPreview]
    run: Callable[[PersonRequest, Session, str], str]
    """Takes the preview's confirmation; returns a sentence that follows the session's name."""


class SessionAdmin(ReadOnly):
    list_display = ("id", "title", "agent", "model", "project", "status", "steps", "errors", "newest_entry")
    list_filter = ("status", "project", "last_entry_at")
    search_fields = ("title", "agent", "tags_text")
    list_select_related = ("project",)
    ordering = ("-last_entry_at", "-id")
    actions = ("compress", "rewind_to_the_last_good_step")
    fields = (
        "id", "page", "project", "title", "agent", "model", "status", "tags_text", "head", "steps", "errors",
        "tokens", "settings", "forked_from", "fork_position", "began", "newest_entry",
    )  # fmt: skip
    readonly_fields = ("page", "began", "newest_entry")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        return cast(QuerySet[Session], super().get_queryset(request).defer(*_BIG_COLUMNS))

    @admin.display(description="started", ordering="created_at")
    def began(self, session: Session) -> datetime | str:
        return known_time(session.created_at) or "undated"

    @admin.display(description="newest entry", ordering="last_entry_at")
    def newest_entry(self, session: Session) -> datetime | str:
        return known_time(session.last_entry_at) or "undated"

    @admin.display(description="session page")
    def page(self, session: Session) -> SafeString:
        return format_html('<a href="/sessions/{}">Open</a> (members of its project only)', session.pk)

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

    def _act(
        self, request: HttpRequest, chosen: QuerySet[Session], action: "SessionAction"
    ) -> HttpResponse | None:
        """Shows the confirmation page; runs the action when that page is sent."""
        sessions = list(chosen.defer(None)[: MAX_AT_ONCE + 1])
        if len(sessions) > MAX_AT_ONCE:
            self.message_user(request, f"Choose at most {MAX_AT_ONCE} sessions.", messages.ERROR)
            return None
        if "confirmed" in request.POST:
            for session in sessions:
                name, confirmation = session.title or session.pk, request.POST.get(f"seen-{session.pk}", "")
                try:
                    sentence = action.run(cast(PersonRequest, request), session, confirmation)
                except PlayheadError as error:
                    self.message_user(request, f"{name}: {error.detail}", messages.ERROR)
                else:
                    self.message_user(request, f"{name}: {sentence}", messages.SUCCESS)
            return None
        previews = []
        for session in sessions:
            try:
                previews.append(action.preview(session))
            except PlayheadError as error:
                previews.append(ActionPreview(session, error.detail))
        context = {
            **self.admin_site.each_context(request),
            "title": action.title,
            "opts": self.model._meta,
            "previews": previews,
            "possible": [preview for preview in previews if preview.confirmation],
            "checkbox": ACTION_CHECKBOX_NAME,
            "action": action.name,
        }
        return render(request, "admin/confirm_action.html", context)


def _preview_compression(session: Session) -> ActionPreview:
    run = estimate(session, RunRequest())
    if not run.steps:
        return ActionPreview(
            session, "There is nothing to compress: the session's newest steps stay in full."
        )
    strategy = f"{run.strategy} with {run.model}" if run.model else run.strategy
    text = f"Steps {run.first_step:,} to {run.last_step:,}, {run.tokens_before:,} tokens, by {strategy}"
    if run.calls:
        text += f": at most {run.calls:,} model calls, {money_text(run.cost, run.prices_as_of)}"
    return ActionPreview(session, f"{text}. {run.note}".strip(), accepted_text(run))


def _compress(request: PersonRequest, session: Session, confirmation: str) -> str:
    accepted = read_accepted(confirmation)
    if accepted is None:
        raise Invalid(NOT_SHOWN)
    started = start_run(
        session.project,
        session.pk,
        RunRequest(),
        actor=actor(request),
        spender=spender(request, session.project),
        accepted=accepted,
    )
    wake_workers(started.run)
    if started.joined:
        return "a compression is already running."
    return "compression started." if started.run.active else started.run.note


def _preview_rewind(session: Session) -> ActionPreview:
    history = History(session)
    good = last_good_step(history)
    if good is None:
        return ActionPreview(session, "There is no step to rewind to: no step succeeded or is an answer.")
    if good == history.steps:
        return ActionPreview(session, "There is nothing to do: the newest step succeeded or is an answer.")
    cut = f"step {history.steps:,}"
    if history.steps > good + 1:
        cut = f"steps {good + 1:,} to {history.steps:,}"
    text = f"Rewinds to the end of step {good:,}. Cuts off {cut}, which stay readable as a take."
    return ActionPreview(session, text, f"{good}@{session.head}")


def _rewind(request: PersonRequest, session: Session, confirmation: str) -> str:
    match = _CONFIRMATION.fullmatch(confirmation)
    if match is None:
        raise Invalid(NOT_SHOWN)
    step, head = int(match[1]), int(match[2])
    rewind(
        session.project,
        session.pk,
        Target(to_step=step),
        reason="rewound to the last good step",
        actor=actor(request),
        expected_position=head,
    )
    return f"rewound to step {step:,}."


COMPRESS = SessionAction("compress", "Compress", _preview_compression, _compress)
REWIND = SessionAction(
    "rewind_to_the_last_good_step", "Rewind to the last good step", _preview_rewind, _rewind
)


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


class ProjectAdmin(ReadOnly):
    list_display = ("name", "id", "paid_automatic_compression", "created_at")
    ordering = ("created_at", "id")
    fields = ("id", "name", "paid_automatic_compression", "created_at")


class KeyAdmin(ReadOnly):
    list_display = ("name", "prefix", "project", "scopes_text", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("project",)
    list_select_related = ("project",)
    search_fields = ("name", "prefix")
    ordering = ("-created_at", "-id")
    actions = ("allow_spending", "stop_spending")
    fields = (
        "id", "name", "prefix", "project", "scopes_text", "created_at", "expires_at", "revoked_at",
        "last_used_at",
    )  # fmt: skip
    readonly_fields = ("scopes_text",)

    @admin.display(description="scopes")
    def scopes_text(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)

    def has_act_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("historyapp.change_apikey")

    @admin.action(description="Grant the spend scope", permissions=("act",))
    def allow_spending(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> None:
        self._change(request, chosen, add=("spend",))

    @admin.action(description="Withdraw the spend scope", permissions=("act",))
    def stop_spending(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> None:
        self._change(request, chosen, remove=("spend",))

    def _change(self, request: HttpRequest, chosen: QuerySet[ApiKey], **scopes: tuple[str, ...]) -> None:
        for key in chosen.filter(revoked_at=None):
            try:
                changed = change_scopes(key, **scopes, actor=actor(cast(PersonRequest, request)))
            except PlayheadError as error:
                self.message_user(request, f"{key.name}: {error.detail}", messages.ERROR)
            else:
                text = f"{key.name} ({key.prefix}…) now has the scopes {', '.join(changed.scopes)}."
                self.message_user(request, text, messages.SUCCESS)


site = PlayheadAdmin()
site.register(ApiKey, KeyAdmin)
site.register(Project, ProjectAdmin)
site.register(Session, SessionAdmin)
site.register(CompressionRun, RunAdmin)
site.register(AuditRecord, AuditAdmin)
