"""A delivery is sent as its session and its webhook are now, not as they were when the turn began."""

from collections.abc import Callable

import pytest

from historyapp.models import Project, Session, Webhook, WebhookDelivery
from historyapp.services.append import lock_session
from historyapp.services.deletions import hide
from historyapp.services.sessions import create_session
from historyapp.services.webhooks import delivery as delivering
from historyapp.services.webhooks.endpoints import change_webhook
from historyapp.services.webhooks.sending import Attempt
from tests.services.webhooks.conftest import Work

pytestmark = pytest.mark.django_db
Sent = list[tuple[str, str]]
MeanwhileSending = Callable[[Callable[[], object]], Sent]


@pytest.fixture
def sessions(project: Project, webhook: Webhook) -> list[Session]:
    return [create_session(project, names={"title": f"run {number}"}) for number in range(3)]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> MeanwhileSending:
    """Makes a change while the first delivery is sent. Returns the URL and the body of all that are sent."""

    def meanwhile(change: Callable[[], object]) -> Sent:
        sent = Sent()

        def send(url: str, headers: object, body: str, project: object) -> Attempt:
            sent.append((url, body))
            if len(sent) == 1:
                change()
            return Attempt(204, "")

        monkeypatch.setattr(delivering, "send", send)
        return sent

    return meanwhile


def test_nothing_about_a_session_is_sent_after_its_erasure(
    project: Project, sessions: list[Session], meanwhile: MeanwhileSending, work: Work
) -> None:
    sent = meanwhile(lambda: hide(lock_session(project, sessions[1].pk), "alice"))
    work()
    assert [str(sessions[1].pk) in body for _, body in sent] == [False, False]
    assert not WebhookDelivery.objects.filter(session=sessions[1].pk).exists()


def test_a_session_that_is_purged_while_its_delivery_is_sent_delays_no_others(
    sessions: list[Session], meanwhile: MeanwhileSending, work: Work
) -> None:
    sent = meanwhile(lambda: WebhookDelivery.objects.filter(session=sessions[0].pk).delete())
    work()
    assert len(sent) == len(sessions)
    assert WebhookDelivery.objects.filter(state="succeeded").count() == 2


def test_deliveries_go_to_the_new_address_as_soon_as_it_is_set(
    project: Project, webhook: Webhook, sessions: list[Session], meanwhile: MeanwhileSending, work: Work
) -> None:
    old, new = webhook.url, f"{webhook.url}/new"
    sent = meanwhile(lambda: change_webhook(project, webhook.pk, {"url": new}))
    work()
    assert [url for url, _ in sent] == [old, new, new]


def test_nothing_is_sent_after_a_webhook_is_paused(
    project: Project, webhook: Webhook, sessions: list[Session], meanwhile: MeanwhileSending, work: Work
) -> None:
    sent = meanwhile(lambda: change_webhook(project, webhook.pk, {"state": "paused"}))
    work()
    assert len(sent) == 1
