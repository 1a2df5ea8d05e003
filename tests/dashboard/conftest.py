"""Alice owns a project, Bob is in it, Charlie is a stranger with a project of his own."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from historyapp.models import Membership, Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, failed, ok


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


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
