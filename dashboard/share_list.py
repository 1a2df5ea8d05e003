"""Share links as the pages of a session and of its project list them."""

from dataclasses import dataclass
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.models import Project, Session, ShareLink
from historyapp.models.samples import steps_at
from historyapp.models.sessions import large_columns
from historyapp.models.shares import ShareQuerySet

LINKS = 50
"""Links that a page lists at once."""


@dataclass(frozen=True, slots=True)
class ShareList:
    """Some links, the newest first."""

    links: list[ShareLink]
    older: UUID | None
    """The next page begins before this link; None on the last page."""
    of_project: bool = False
    """Whether the links lead to many sessions."""


def session_links(session: Session, query: QueryDict) -> ShareList:
    """All links to a session, including expired and revoked ones."""
    return _page(session.shares.all(), query)


def project_links(project: Project, query: QueryDict) -> ShareList:
    """The usable links to all sessions of a project."""
    links = ShareLink.objects.usable(timezone.now()).filter(session__project=project)
    unused = set(large_columns("session")) - {"session__fork_spans"}
    return _page(links.select_related("session").defer(*unused), query, of_project=True)


def _page(usable: ShareQuerySet, query: QueryDict, *, of_project: bool = False) -> ShareList:
    if before := query.get("links_before"):
        try:
            usable = usable.filter(pk__lt=UUID(before))
        except ValueError:
            raise Invalid("links_before is not the ID of a share link. Reload the page.") from None
    links = list(usable.order_by("-pk")[: LINKS + 1])
    older = links[LINKS - 1].pk if len(links) > LINKS else None
    _read_steps(links[:LINKS])
    return ShareList(links[:LINKS], older, of_project)


def _read_steps(links: list[ShareLink]) -> None:
    """Reads with one query how many steps the links to positions show. A link to a part of a fork that its
    parent recorded shows the steps of the ancestor that recorded its end."""
    places = {link: _place(link.session, link.as_of) for link in links if link.as_of is not None}
    steps = steps_at(set(places.values()))
    for link, place in places.items():
        link.steps = steps.get(place, 0)


def _place(session: Session, as_of: int) -> tuple[str, int]:
    if as_of > session.fork_position:
        return str(session.pk), as_of
    lineage = session.shared_lineage.cut(as_of)
    return (lineage.newest[-1].session, lineage.last) if lineage.newest else (str(session.pk), 0)
