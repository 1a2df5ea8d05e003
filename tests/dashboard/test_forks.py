"""Forking at the step under the playhead."""

from uuid import UUID

from django.test import Client
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from tests.services.drafts import act, ok


def forked(client: Client, session: Session, step: str, query: str = "") -> tuple[Session, str]:
    response = client.post(reverse("fork", args=[session.pk]) + query, {"step": step})
    path, _, rest = response["Location"].partition("?")
    return Session.objects.get(pk=UUID(path.rsplit("/", 1)[1])), rest


def test_a_fork_shares_everything_up_to_the_step(alice: Client, session: Session) -> None:
    child, location = forked(alice, session, "3")
    assert child.forked_from == session
    assert History(child).steps == 3
    assert location == "step=3"


def test_a_fork_opens_at_its_first_own_step(alice: Client, project: Project, session: Session) -> None:
    child, _ = forked(alice, session, "3")

    def opened(query: str = "") -> int:
        step: int = alice.get(reverse("session", args=[child.pk]) + query).context["location"].step
        return step

    assert opened() == 3  # it has no step of its own yet
    append(project, child.pk, [act("ls"), ok(), act("pwd"), ok()])
    assert opened() == 4
    assert opened("?as_of=3") == 1
    assert opened("?step=1") == 1


def test_a_take_can_be_forked(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=1))
    child, _ = forked(alice, session, "4", "?as_of=11")
    assert History(child).steps == 4
    assert History(child).row(4).result_preview == "text 4"


def test_a_step_that_does_not_exist_cannot_be_forked(alice: Client, session: Session) -> None:
    response = alice.post(reverse("fork", args=[session.pk]), {"step": "9"})
    assert response.status_code == 404
    assert Session.objects.count() == 1
