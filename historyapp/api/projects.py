"""The key's project and what it allows."""

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, check_scope
from historyapp.api.fields import RequestBody
from historyapp.api.problems import raises
from historyapp.api.responses import fill, reply
from historyapp.services.projects import change_project
from historyapp.services.spending import Spender
from historyapp.wire.base import shown
from historyapp.wire.problems import SpendForbidden
from historyapp.wire.projects import ProjectOut

router = Router(tags=["project"])


class ProjectPatch(RequestBody):
    """Only what is given changes."""

    model_config = shown({"paid_automatic_compression": True})

    paid_automatic_compression: bool = Field(
        default=False, description="Whether automatic compression may call a provider's model."
    )


@router.get("/project", response=ProjectOut, summary="Read the key's project")
def read_project(request: ApiRequest) -> HttpResponse:
    return reply(fill(ProjectOut, request.auth.project))


@router.patch("/project", response=ProjectOut, summary="Change what the project allows")
@raises(SpendForbidden)
def patch_project(request: ApiRequest, changes: ProjectPatch) -> HttpResponse:
    """Needs the scope `admin` beside `write`; what lets the project spend money needs `spend` too."""
    check_scope(request.auth, "admin")
    if changes.paid_automatic_compression:
        Spender(request.auth).check("Paid automatic compression")
    given = changes.model_dump(exclude_unset=True)
    return reply(fill(ProjectOut, change_project(request.auth.project, given, actor=actor(request))))
