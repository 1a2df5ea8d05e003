"""Alice owns a project, Bob is in it, Charlie is a stranger with a project of his own."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.template import Context, Template
from django.template.base import Variable, VariableDoesNotExist
from django.template.loader_tags import BlockNode
from django.test import Client

from historyapp.models import Membership, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, failed, ok


def signed_in(user: User) -> Client:
    """Stores only the session. ``Client.force_login`` stores it three times and changes the user too."""
    client, session = Client(), SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    assert session.session_key
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return client


@pytest.fixture(scope="session", autouse=True)
def _templates_use_only_attributes_that_exist() -> Iterator[None]:
    """Django shows nothing for an attribute that an object does not have, so a renamed one goes unnoticed.

    Variables that are missing from the context are optional. None and dictionaries may lack anything.
    """
    resolve = Variable._resolve_lookup  # type: ignore[attr-defined]

    def resolve_or_fail(variable: Variable, context: Any) -> Any:
        try:
            return resolve(variable, context)
        except VariableDoesNotExist as error:
            name, owner = error.params[0], type(error.params[1])
            ours = owner.__module__.startswith(("historyapp.", "dashboard."))
            if ours or owner is BlockNode:
                raise AssertionError(f"{variable.var}: {owner.__name__} has no {name}") from error
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Variable, "_resolve_lookup", resolve_or_fail)
        yield


@pytest.fixture(scope="session", autouse=True)
def _only_the_template_of_a_page_is_reported() -> Iterator[None]:
    """Otherwise Django's test client copies the context for each of a page's 50 included templates."""
    report = Template._render  # type: ignore[attr-defined]

    def render(template: Template, context: Context) -> str:
        is_included = context.template is not template
        return template.nodelist.render(context) if is_included else report(template, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "_render", render)
        yield


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's project")


@pytest.fixture
def alice(project: Project) -> Client:
    user = User.objects.create_user("alice")
    Membership.objects.create(project=project, user=user, is_owner=True)
    return signed_in(user)


@pytest.fixture
def bob(project: Project) -> Client:
    user = User.objects.create_user("bob")
    Membership.objects.create(project=project, user=user)
    return signed_in(user)


@pytest.fixture
def charlie(db: None) -> Client:
    user = User.objects.create_user("charlie")
    Membership.objects.create(project=Project.objects.create(name="Charlie's"), user=user, is_owner=True)
    return signed_in(user)


@pytest.fixture
def session(project: Project) -> Session:
    """Five steps. The third failed, and an input from a person precedes the first."""
    session = create_session(project, names={"title": "Repair the totals", "agent": "demo", "model": "gpt-5"})
    drafts = [ask("Repair the totals, please.")]
    for number in range(1, 6):
        drafts.append(act("read_file", path=f"file-{number}.txt"))
        drafts.append(failed(reason="not found") if number == 3 else ok(outputs=f"text {number}"))
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session
