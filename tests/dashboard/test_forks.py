"""Forking at the step under the playhead."""

from uuid import UUID

from django.test import Client
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.rewinds import Target, rewind


def forked(client: Client, session: Session, step: str, query: str = "") -> tuple[Session, str]:
    response = client.post(reverse("fork", args=[session.pk]) + query, {"step": step})
    path, _, rest = response["Location"].partition("?")
    return Session.objects.get(pk=UUID(path.rsplit("/", 1)[1])), rest


def test_a_fork_shares_everything_up_to_the_step(alice: Client, session: Session) -> None:
    child, location = forked(alice, session, "3")
    assert child.forked_from == session
    assert History(child).steps == 3
    assert location == "step=3"


def test_a_take_can_be_forked(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=1))
    child, _ = forked(alice, session, "4", "?as_of=11")
    assert History(child).steps == 4
    assert History(child).row(4).result_preview == "text 4"


def test_a_step_that_does_not_exist_cannot_be_forked(alice: Client, session: Session) -> None:
    response = alice.post(reverse("fork", args=[session.pk]), {"step": "9"})
    assert response.status_code == 404
    assert Session.objects.count() == 1
