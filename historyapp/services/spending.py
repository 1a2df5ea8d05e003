"""Checks who may spend money on providers' models, and on which models."""

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from historyapp.core.settings import SessionSettings
from historyapp.llm.router import LOCAL, PROVIDERS, ProviderRouter
from historyapp.models import ApiKey, Project
from historyapp.wire.problems import ModelNotAllowed, SpendForbidden

SCOPE = "spend"


@dataclass(frozen=True, slots=True)
class Spender:
    """Who requests a provider's model: an API key, a person, or the operator (the default)."""

    key: ApiKey | None = None
    is_member: bool = False
    """Whether this is a person who does not own the project."""

    def check(self, subject: str, reason: str = "calls a provider's model, which costs money") -> None:
        """Checks that the spender may spend.

        Args:
            subject: the beginning of the error's sentence, such as "This compression with …".
            reason: the rest of the sentence.

        Raises:
            SpendForbidden: when a key lacks the scope ``spend``, or a person is not an owner of the project.
        """
        problem = f"{subject} {reason}"
        if self.key is not None and SCOPE not in self.key.scopes:
            raise SpendForbidden(
                f"{problem}, and this API key lacks the scope `spend`. Ask the operator to grant it with "
                f"`playhead keys grant {self.key.prefix}`. For a compression you can use the model "
                "local, which needs no scope.",
                scope=SCOPE,
            )
        if self.is_member:
            raise SpendForbidden(
                f"{problem}. Only owners of the project may start it. Use the model local, or ask an owner."
            )


OPERATOR = Spender()


@dataclass(frozen=True, slots=True)
class Payer:
    """The project, the session and the API key, if any, whose caps apply to a model call."""

    project_id: UUID
    session_id: UUID
    key_id: UUID | None = None
    person: str = ""
    """The name of the person who requested it; empty: a key, the operator or the session's settings."""
    automatic: bool = False
    """Whether the session's settings started the model call, not a request."""

    def check(self, model: str, unpriced: str = "") -> None:
        """Repeats the checks of the request, because a run can wait and work for hours.

        Args:
            unpriced: a description of an option or tool that may use another model.

        Raises:
            ModelNotAllowed: when the project no longer allows the model, or lists models and there is such
                an option or tool.
            SpendForbidden: when the key expired, was revoked or lost the scope ``spend``, when the person no
                longer owns the project, or when the project turned paid automatic compression off.
        """
        project = Project.objects.get(pk=self.project_id)
        check_model(project, model, unpriced)
        if self.automatic and not project.paid_automatic_compression:
            raise SpendForbidden("The project has turned off paid automatic compression.")
        key = None if self.key_id is None else ApiKey.objects.get(pk=self.key_id)
        if problem := key and key.problem(timezone.now()):
            raise SpendForbidden(f"The API key {key.prefix}… {problem}. Repeat the request with another key.")
        owns = Q(is_superuser=True) | Q(membership__project=project, membership__is_owner=True)
        people = User.objects.filter(owns, username=self.person, is_active=True)
        if self.person and not people.exists():
            raise SpendForbidden(
                f"{self.person} requested this and no longer owns the project. An owner can repeat it."
            )
        Spender(key).check("This request")


def allows_model(project: Project, model: str) -> bool:
    """Whether the project allows a model, given with or without a provider prefix.

    The name that is sent to the provider must be on the list. A listed name without a provider prefix is
    allowed for every provider. ``local`` costs nothing and is always allowed.

    Raises:
        Invalid: when no provider serves the model.
    """
    if not project.allowed_models or model in ("", LOCAL):
        return True
    route = ProviderRouter().route(model)
    names = {f"{route.provider.name}:{route.model}"}
    # Another name with a colon could look like a listed name with a provider prefix.
    if route.model.partition(":")[0] not in PROVIDERS:
        names.add(route.model)
    return not names.isdisjoint(project.allowed_models)


def check_model(project: Project, model: str, unpriced: str = "") -> None:
    """Checks that the project allows the model.

    Args:
        unpriced: a description of an option or tool that may use another model.

    Raises:
        ModelNotAllowed: when the model is not on the project's list, or there is a list and such an option or
            tool. The error names the models on the list.
    """
    listed = ", ".join(project.allowed_models)
    if not allows_model(project, model):
        raise ModelNotAllowed(
            f"This project does not allow the model {model}. It allows {listed}. Choose one of these, or ask "
            "an owner of the project to add the model in the project's settings.",
            model=model,
            allowed_models=project.allowed_models,
        )
    if listed and unpriced:
        raise ModelNotAllowed(
            f"This project allows only the models {listed}, and {unpriced} may use others. Leave it out, or "
            "ask an owner of the project to remove the list.",
            model=model,
            allowed_models=project.allowed_models,
        )


def check_summary_model(project: Project, model: str, spender: Spender) -> None:
    """Checks that the spender may choose the model that compression will call.

    The choice is kept, and others pay for it: an owner who starts a run later, or who turns paid automatic
    compression on. So it needs permission to spend even while nothing is spent.

    Raises:
        SpendForbidden: when the spender may not spend, unless the model is local, or is the default and the
            project does not allow paid automatic compression.
    """
    is_default = model == SessionSettings().llm_name and not project.paid_automatic_compression
    if model != LOCAL and not is_default:
        spender.check(f"Compression with {model}")
