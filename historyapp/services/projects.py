"""Changes a project's settings."""

from collections.abc import Iterable, Mapping
from typing import Any

from historyapp.core.errors import Invalid
from historyapp.core.settings import checked_instruction
from historyapp.llm.router import LOCAL, ProviderRouter
from historyapp.models import CompressionRun, Project
from historyapp.services.audit import add_audit_record
from historyapp.services.compression.start import cancel_run
from historyapp.services.transactions import writing

MAX_MODELS = 100
"""The maximum length of the list of allowed models."""


def read_models(names: Iterable[str]) -> list[str]:
    """Normalises a list of allowed models. ``local`` is left out, because it is always allowed.

    Raises:
        Invalid: when no provider serves one of the models, or there are more than ``MAX_MODELS``.
    """
    models = dict.fromkeys(stripped for name in names if (stripped := name.strip()) not in ("", LOCAL))
    if len(models) > MAX_MODELS:
        raise Invalid(
            f"The list of allowed models has {len(models)} names; at most {MAX_MODELS} are possible."
        )
    for model in models:
        ProviderRouter().route(model)
    return list(models)


def read_instruction(text: str) -> str:
    """A summary instruction as stored; empty for the default.

    Raises:
        Invalid: when it is too long or contains control characters or lone surrogates.
    """
    try:
        return checked_instruction(text) if text.strip() else ""
    except ValueError as error:
        raise Invalid(f"The summary instruction {error}") from None


def change_project(project: Project, changes: Mapping[str, Any], *, actor: str = "") -> Project:
    """Changes a project's settings.

    Turning ``paid_automatic_compression`` off cancels the automatic runs that call a provider's model.

    Args:
        changes: the columns to change, by name.
    """
    with writing():
        locked = project.locked()
        changed = {name: value for name, value in changes.items() if getattr(locked, name) != value}
        if not changed:
            return locked
        for name, value in changed.items():
            setattr(locked, name, value)
        locked.save(update_fields=list(changed))
        add_audit_record(project.pk, actor, "change project", None, changed)
        if changed.get("paid_automatic_compression") is False:
            runs = CompressionRun.objects.active().filter(project=project, automatic=True)
            for run in list(runs.exclude(model__in=("", LOCAL))):
                cancel_run(run, actor=actor)
        return locked
