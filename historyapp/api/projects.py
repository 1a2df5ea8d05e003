"""The key's project and its settings."""

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, check_scope
from historyapp.api.caps import DailyCap, MonthlyCap, cap_out, pop_limits
from historyapp.api.context_requests import ModelName
from historyapp.api.fields import RequestBody
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Invalid
from historyapp.core.settings import Instruction
from historyapp.models import Project
from historyapp.services.caps import project_caps, set_caps
from historyapp.services.projects import MAX_MODELS, change_project, read_models
from historyapp.services.spending import Spender
from historyapp.services.transactions import writing
from historyapp.wire.base import with_example
from historyapp.wire.problems import SpendForbidden
from historyapp.wire.projects import ProjectOut

router = Router(tags=["project"])


class ProjectPatch(RequestBody):
    """Only the given fields change."""

    model_config = with_example({"paid_automatic_compression": True, "daily_cap": 5})

    daily_cap: DailyCap = None
    monthly_cap: MonthlyCap = None
    allowed_models: list[ModelName] | None = Field(
        default=None,
        max_length=MAX_MODELS,
        description="The only models that may be called, with or without `provider:`. Null or empty: all.",
    )
    summary_instruction: Instruction | None = Field(
        default=None,
        description="The instruction of `ai_summary` in sessions without their own. Null: the default.",
    )
    paid_automatic_compression: bool = Field(
        default=False, description="Whether automatic compression may call a provider's model."
    )


@router.get("/project", response=ProjectOut, summary="Read the key's project")
def read_project(request: ApiRequest) -> HttpResponse:
    return json_response(_project_out(request.auth.project))


@router.patch("/project", response=ProjectOut, summary="Change the project's settings")
@raises(Invalid, SpendForbidden)
def patch_project(request: ApiRequest, changes: ProjectPatch) -> HttpResponse:
    """Needs the scope `admin` in addition to `write`; fields that let the project spend money need `spend`
    too.
    """
    check_scope(request.auth, "admin")
    fields = changes.model_dump(exclude_unset=True)
    limits = pop_limits(fields)
    if limits:
        Spender(request.auth).check("A spending cap")
    if "allowed_models" in fields:
        Spender(request.auth).check("A model of the list")
        fields["allowed_models"] = read_models(fields["allowed_models"] or ())
    if changes.paid_automatic_compression:
        Spender(request.auth).check("Paid automatic compression")
    if "summary_instruction" in fields:
        fields["summary_instruction"] = fields["summary_instruction"] or ""
    with writing():
        set_caps(request.auth.project, limits, actor=actor(request))
        project = change_project(request.auth.project, fields, actor=actor(request))
    return json_response(_project_out(project))


def _project_out(project: Project) -> ProjectOut:
    caps = [cap_out(cap) for cap in project_caps(project)]
    return fill(ProjectOut, project, caps=caps, summary_instruction=project.summary_instruction or None)
