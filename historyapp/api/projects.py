"""The key's project and what it allows."""

from typing import Annotated

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, check_scope
from historyapp.api.fields import RequestBody
from historyapp.api.problems import raises
from historyapp.api.responses import fill, reply
from historyapp.core.usage import MICRO
from historyapp.models import Project
from historyapp.services.caps import caps_of, set_caps
from historyapp.services.projects import change_project
from historyapp.services.spending import Spender
from historyapp.services.transactions import writing
from historyapp.wire.base import shown
from historyapp.wire.problems import SpendForbidden
from historyapp.wire.projects import CapOut, ProjectOut

router = Router(tags=["project"])

Dollars = Annotated[float, Field(ge=0, le=1e9)]
_CAPS = {"daily_cap": "day", "monthly_cap": "month"}
"""Fields of the request, and the periods of their caps."""


class ProjectPatch(RequestBody):
    """Only what is given changes."""

    model_config = shown({"paid_automatic_compression": True, "daily_cap": 5})

    daily_cap: Dollars | None = Field(
        default=None, description="The most that a day (UTC) may cost; null: no cap."
    )
    monthly_cap: Dollars | None = Field(
        default=None, description="The most that a month (UTC) may cost; null: no cap."
    )
    paid_automatic_compression: bool = Field(
        default=False, description="Whether automatic compression may call a provider's model."
    )


@router.get("/project", response=ProjectOut, summary="Read the key's project")
def read_project(request: ApiRequest) -> HttpResponse:
    return reply(_project(request.auth.project))


@router.patch("/project", response=ProjectOut, summary="Change what the project allows")
@raises(SpendForbidden)
def patch_project(request: ApiRequest, changes: ProjectPatch) -> HttpResponse:
    """Needs the scope `admin` beside `write`; what lets the project spend money needs `spend` too."""
    check_scope(request.auth, "admin")
    given = changes.model_dump(exclude_unset=True)
    limits = {period: given.pop(name) for name, period in _CAPS.items() if name in given}
    if limits:
        Spender(request.auth).check("A spending cap")
    if changes.paid_automatic_compression:
        Spender(request.auth).check("Paid automatic compression")
    micros = {period: None if limit is None else round(limit * MICRO) for period, limit in limits.items()}
    with writing():
        set_caps(request.auth.project, micros, actor=actor(request))
        project = change_project(request.auth.project, given, actor=actor(request))
    return reply(_project(project))


def _project(project: Project) -> ProjectOut:
    caps = [fill(CapOut, cap, limit=cap.limit / MICRO, spent=cap.spent / MICRO) for cap in caps_of(project)]
    return fill(ProjectOut, project, caps=caps)
