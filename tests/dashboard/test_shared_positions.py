"""A share link to a position tells nothing about what happened after it."""

import re

import pytest
from django.test import Client

from historyapp.models import Project, Session, StaleOutcomes
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.dashboard.pages import fragment, html
from tests.dashboard.test_shared import linked, walk
from tests.services.drafts import act, ask, ok

TIMES = re.compile(r"just now|\d+ min ago")


@pytest.fixture
def recorded(project: Project) -> Session:
    """A session with a take and a step in flight."""
    session = create_session(project, names={"title": "Tidy the shed"})
    append(project, session.pk, [ask("go"), act("read", path="a.py"), ok(), act("read", path="b.py"), ok()])
    rewind(project, session.pk, Target(episodes=1))
    append(project, session.pk, [act("edit", path="c.py"), ok(), act("bash", command="make")])
    session.refresh_from_db()
    return session


def change_everything(session: Session) -> None:
    """Appends, rewinds and restores, writes summaries and notes, and ends the session."""
    project, id = session.project, session.pk
    append(project, id, [ok("done"), ask("later"), act("read", path="later.py"), ok(outputs="later words")])
    rewind(project, id, Target(to_position=3), reason="later reason")
    append(project, id, [act("read", path="d.py"), ok()])
    add_summary(project, id, (1, 2), SummaryText("A later summary."))
    put_note(project, id, 1, "A later note.")
    change_session(project, id, {"status": "archived", "tags": ["later"], "note": "later", "score": 1})
    fork(project, id, at_step=1)


def replies(link: str, session: Session, head: int) -> dict[str, str]:
    """The replies to requests that a reader can guess."""
    page = f"{link}sessions/{session.pk}"
    rests = [
        "/news?step=1&steps=0&seen=0",
        *(f"/news?step=1&steps=1&seen=1&revision={number}" for number in range(30)),
        *(f"/takes/{position}" for position in range(head + 2, head + 12)),
        *(f"?as_of={position}" for position in range(head + 1, head + 12)),
        *(f"/jump?step=1&to={name}" for name in ("next-error", "last-error", "next-turn")),
        *(f"/steps?around=1&{query}" for query in ("status=in_flight", "status=error", "kind=read")),
        "/replay-time", "/find?find=later", "/steps/3", "/timeline?axis=time", "/timeline?axis=tokens",
    ]  # fmt: skip
    return {rest: _reply(f"{page}{rest}") for rest in rests}


def _reply(address: str) -> str:
    response = fragment(Client(), address)
    body = html(response) if response.content else ""
    return f"{response.status_code} {TIMES.sub('', body)}"


@pytest.mark.parametrize("with_takes", [False, True])
@pytest.mark.parametrize("is_fork", [False, True])
def test_a_link_to_a_position_shows_the_same_whatever_happens_later(
    recorded: Session, with_takes: bool, is_fork: bool
) -> None:
    session = fork(recorded.project, recorded.pk) if is_fork else recorded
    head = session.head
    link = linked(session, as_of=head, with_takes=with_takes, with_inputs=True)
    before = {address: TIMES.sub("", page) for address, page in walk(link, 2).items()}
    guessed = replies(link, session, head)
    change_everything(session)
    assert replies(link, session, head) == guessed
    assert {address: TIMES.sub("", page) for address, page in walk(link, 2).items()} == before


def test_a_link_to_a_position_shows_no_progress_of_a_later_computation(recorded: Session) -> None:
    page = f"{linked(recorded, as_of=3)}sessions/{recorded.pk}"
    StaleOutcomes.objects.create(session=recorded, after=6)
    assert "are being computed." in html(Client().get(page))
