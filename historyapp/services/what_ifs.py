"""Saves What ifs by name, and applies one to a session's settings."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.formats import format_named
from historyapp.core.policies import policy_named
from historyapp.core.text import clean
from historyapp.models import Project, Session, WhatIf
from historyapp.models.what_ifs import MAX_NAME, MAX_TOKENS, MAX_WHAT_IFS
from historyapp.services.sessions import change_session
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """How a context is built. An empty field means the session's setting."""

    policy: str = ""
    max_tokens: int | None = None
    format: str = ""
    model: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is chosen."""
        return self == WhatIfOptions()

    def check(self) -> None:
        """Raises ``Invalid`` for unknown names, and if nothing is chosen."""
        if self.is_empty:
            raise Invalid("Choose a policy, a budget, a format or a model to save.")
        if self.policy:
            policy_named(self.policy)
        if self.format:
            format_named(self.format)
        if self.max_tokens is not None and not 0 <= self.max_tokens <= MAX_TOKENS:
            raise Invalid(f"max_tokens must be from 0 to {MAX_TOKENS:,}.")


def save_what_if(project: Project, name: str, options: WhatIfOptions, *, actor: str = "") -> WhatIf:
    """Saves a What if. It replaces an earlier What if with the same name and keeps its id.

    Raises:
        Invalid: for an empty or long name, and as :meth:`WhatIfOptions.check`.
        Conflict: when the project has too many What ifs.
    """
    name = " ".join(clean(name).split())
    if not 1 <= len(name) <= MAX_NAME:
        raise Invalid(f"Enter a name of 1 to {MAX_NAME} characters.")
    options.check()
    with writing():
        project.locked()
        saved = WhatIf.objects.filter(project=project, name=name).first()
        if saved is None:
            if WhatIf.objects.filter(project=project).count() >= MAX_WHAT_IFS:
                raise Conflict(
                    f"A project has at most {MAX_WHAT_IFS} saved What ifs. Delete one that you do not need."
                )
            saved = WhatIf(project=project, name=name)
        saved.policy, saved.max_tokens = options.policy, options.max_tokens
        saved.format, saved.model = options.format, clean(options.model)
        saved.actor, saved.updated_at = actor, timezone.now()
        saved.save()
        return saved


def find_what_if(project: Project, what_if_id: UUID) -> WhatIf:
    """The project's saved What if.

    Raises:
        NotFound: when the project has no saved What if with this id.
    """
    if what_if := WhatIf.objects.filter(project=project, pk=what_if_id).first():
        return what_if
    raise NotFound(f"There is no saved What if {what_if_id}.")


def delete_what_if(project: Project, what_if_id: UUID) -> None:
    """Deletes a saved What if. Sessions that use its settings keep them.

    Raises:
        NotFound: when the project has no saved What if with this id.
    """
    with writing():
        find_what_if(project, what_if_id).delete()


def use_what_if(session: Session, what_if: WhatIf, *, actor: str = "") -> Session:
    """Applies a saved What if to a session's settings. Settings that it leaves empty keep their values.

    Raises:
        NotFound: when the session was deleted.
    """
    settings: dict[str, Any] = {}
    if what_if.policy:
        settings["policy"] = what_if.policy
    if what_if.max_tokens is not None:
        settings["max_tokens"] = what_if.max_tokens
    if what_if.format:
        settings["format"] = what_if.format
    changes: dict[str, Any] = {"settings": settings}
    if what_if.model:
        changes["model"] = what_if.model
    return change_session(session.project, session.pk, changes, actor=actor)
