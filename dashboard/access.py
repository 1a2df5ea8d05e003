"""Access: every page except sign-in needs a signed-in person, who sees the projects that they are in."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from uuid import UUID

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import cache_control
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from historyapp.core.errors import NotFound
from historyapp.core.hidden_texts import HIDDEN_TITLE
from historyapp.models import CompressionRun, Membership, Project, Session, ShareLink
from historyapp.models.compiled import CompiledQuery
from historyapp.models.large_reads import read_for
from historyapp.models.sessions import columns_except
from historyapp.services.keys import notify_of_credential
from historyapp.services.spending import Spender

PROJECT = "project"
"""Key of a person's browser session: the project they have chosen."""

_PARENTS = ("forked_from", "spawned_by")
_UNSHOWN = columns_except({"title", "agent", "steps", "last_entry_at"}, *_PARENTS)
"""Columns of the sessions that a session was forked or started from, which no page shows."""

P = ParamSpec("P")


class PersonRequest(HttpRequest):
    """A request of somebody who is signed in, or who has a share link."""

    user: User
    htmx: HtmxDetails
    share: ShareLink
    """Set only for requests through a share link: see :func:`share_of`."""
    found_session: Session
    """The session that the person has reached, so that an error page can lead back to it."""


def share_of(request: HttpRequest) -> ShareLink | None:
    """The share link that lets the request in, or None. Only ``dashboard.views.shared`` sets it."""
    return getattr(request, "share", None)


View = Callable[Concatenate[PersonRequest, P], HttpResponseBase]


def signed_in(view: View[P]) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Redirects to the sign-in page. Pages are private, and fragments are cached apart from pages."""

    @wraps(view)
    def checked(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if share_of(request) is None and not request.user.is_authenticated:
            htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
            page = htmx.current_url_abs_path if htmx else request.get_full_path()
            response = redirect_to_login(page or "/")
            return HttpResponseClientRedirect(response.url) if htmx else response
        if share_of(request) is None:
            notify_of_credential(f"person {request.user.pk}".encode())
        return view(cast(PersonRequest, request), *args, **kwargs)

    return vary_on_headers("HX-Request", "HX-Target")(cache_control(private=True)(checked))


def actor(request: PersonRequest) -> str:
    """The person as audit records and rewinds name them."""
    return f"user:{request.user.get_username()}"


_PROJECTS = CompiledQuery(
    lambda user: Project.objects.filter(members=user).order_by("created_at", "id"), 1 << 30
)


def projects(request: PersonRequest) -> list[Project]:
    """The person's projects, the oldest first."""
    return _PROJECTS.rows(request.user.pk)


def current_project(request: PersonRequest, among: list[Project]) -> Project:
    """The project that the person chose, otherwise their first.

    Raises:
        NotFound: when they are in no project.
    """
    if not among:
        raise NotFound("You are not a member of any project. Ask the owner of a project to add you.")
    chosen = request.session.get(PROJECT)
    project = next((project for project in among if str(project.pk) == chosen), among[0])
    read_for(project.pk.bytes)
    return project


def is_owner(request: PersonRequest, project: Project) -> bool:
    """Whether the person may change what the project allows, and spend its money."""
    return Membership.objects.filter(project=project, user=request.user, is_owner=True).exists()


def spender(request: PersonRequest, project: Project) -> Spender:
    """The person as a spender: owners and superusers may spend the project's money, other members may not."""
    return Spender(is_member=not (request.user.is_superuser or is_owner(request, project)))


def _with_relations(sessions: "QuerySet[Session]") -> "QuerySet[Session]":
    runs = CompressionRun.objects.active().filter(session=OuterRef("pk"), trial=False)
    sessions = sessions.select_related("project", "stale_outcomes", "annotation", *_PARENTS)
    return sessions.defer(*_UNSHOWN).annotate(has_active_run=Exists(runs))


_SESSIONS = CompiledQuery(lambda id: _with_relations(Session.objects.filter(pk=id)), UUID(int=1))
_SESSIONS_OF_MEMBER = CompiledQuery(
    lambda id, user: _with_relations(Session.objects.filter(pk=id, project__members=user)),
    UUID(int=1),
    1 << 30,
)


def find_session(request: PersonRequest, session_id: UUID) -> Session:
    """A session of any project that the person is in; ``has_active_run``: whether a compression is running.

    A share link reaches only its own session. If it hides inputs, the title is hidden too, because
    many titles are the beginning of the first input. If it ends at a position, so are the status and the
    revision, which show that the session has changed since.

    Raises:
        NotFound: when there is no such session, or it belongs to another project.
    """
    share = share_of(request)
    if share is None:
        sessions = _SESSIONS_OF_MEMBER.rows(session_id, request.user.pk)
    else:
        sessions = _SESSIONS.rows(session_id) if session_id == share.session_id else []
    if not sessions:
        raise NotFound(f"There is no session {session_id}.")
    [session] = sessions
    read_for(session.project_id.bytes)
    if share is not None:
        share.session = session
        if not share.with_inputs and session.title:
            session.title = HIDDEN_TITLE
        if share.as_of is not None:
            session.status, session.revision = Session.Status.LIVE, 0
    request.found_session = session
    return session
