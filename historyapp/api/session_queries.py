"""The parameters of ``GET /sessions`` and of its facets."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from historyapp.api.cursors import Limit
from historyapp.api.fields import Line, Name, Tag
from historyapp.api.figures import Day
from historyapp.core.errors import Invalid
from historyapp.core.run_places import MAX_PLACE
from historyapp.models import Session
from historyapp.models.projects import Project
from historyapp.models.session_filters import FACETS, MAX_VALUES, FacetCounts, SessionCriteria
from historyapp.models.session_lists import MAX_CURSOR, SORTS
from historyapp.models.sessions import SessionQuerySet
from historyapp.wire.sessions import SessionFacets, SessionFacetValue

MAX_SHOWN = 100
"""The maximum number of values of one facet in a response."""
YesNo = Literal["true", "false"]
Place = Annotated[Line, Field(max_length=MAX_PLACE)]
_YES_NO: dict[str | None, bool | None] = {"true": True, "false": False, None: None}
_SORTS = [sign + name for name in SORTS for sign in ("", "-")]


class SessionFilter(BaseModel):
    """A session must match all parameters. Of a repeated parameter except `tag`, one value is enough."""

    q: Annotated[Line, Field(max_length=200)] = Field(
        default="", description="Words; title, agent or tags must contain all of them."
    )
    id: Annotated[str, Field(pattern=r"^[0-9A-Fa-f-]{1,36}$")] | None = Field(
        default=None, description="The beginning of the session's id."
    )
    agent: list[Name] = Field(
        default_factory=list, max_length=MAX_VALUES, description="Any of them; may be given several times."
    )
    model: list[Name] = Field(default_factory=list, max_length=MAX_VALUES, description="Any of them.")
    repository: list[Place] = Field(default_factory=list, max_length=MAX_VALUES, description="Any of them.")
    folder: list[Place] = Field(default_factory=list, max_length=MAX_VALUES, description="Any of them.")
    tag: list[Tag] = Field(
        default_factory=list, max_length=MAX_VALUES, description="All of them; may be given several times."
    )
    status: Literal["live", "finished", "archived", "all"] | None = Field(
        default=None, description="Default: all except archived sessions."
    )
    errors: YesNo | None = Field(
        default=None, description="Only sessions with failed steps, or only those without."
    )
    likely_failures: YesNo | None = Field(
        default=None,
        description="Only sessions with likely failures, or only those without. A likely failure is a step "
        "that was reported as a success but looks like a failure.",
    )
    first: Day | None = Field(
        default=None, alias="from", description="The first day, in UTC, of the sessions' newest entries."
    )
    last: Day | None = Field(default=None, alias="to", description="The last day, in UTC.")
    undated: YesNo | None = Field(
        default=None, description="Only sessions whose transcript has no times, or only those with times."
    )

    def criteria(self) -> SessionCriteria:
        """The criteria for the database query.

        Raises:
            Invalid: when the last day is before the first day.
        """
        if self.first and self.last and self.last < self.first:
            raise Invalid(f"`to` is {self.last}, which is before `from`, {self.first}. Swap them.")
        return SessionCriteria(
            q=self.q,
            status=self.status or "",
            agent=_unique(self.agent),
            model=_unique(self.model),
            repository=_unique(self.repository),
            folder=_unique(self.folder),
            tag=_unique(self.tag),
            errors=_YES_NO[self.errors],
            likely_failures=_YES_NO[self.likely_failures],
            first=self.first,
            last=self.last,
            undated=_YES_NO[self.undated],
        )

    def sessions(self, project: Project) -> SessionQuerySet:
        """The project's sessions whose ids begin with ``id``."""
        sessions = Session.objects.filter(project=project)
        return sessions if self.id is None else sessions.with_prefix(self.id)


class SessionListQuery(SessionFilter):
    sort: str = Field(
        default="-last_entry",
        description="The sort key; `-` before it sorts the highest or newest first.",
        json_schema_extra={"enum": list[JsonValue](_SORTS)},
    )
    limit: Limit = 50
    cursor: str | None = Field(
        default=None,
        max_length=2 * MAX_CURSOR,
        description="`next` of the previous page. Keep the other parameters unchanged.",
    )


def facets_out(counts: FacetCounts) -> SessionFacets:
    """The counts of the facets' values, the most frequent values first."""
    facets: dict[str, list[SessionFacetValue]] = {}
    for facet in FACETS:
        pairs = [(value, count) for value, count in counts.facets[facet].items() if value]
        pairs.sort(key=lambda pair: (-pair[1], pair[0]))
        facets[facet] = [SessionFacetValue(value=value, count=count) for value, count in pairs[:MAX_SHOWN]]
    return SessionFacets(total=counts.total, **facets)


def _unique(values: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))
