"""Sub-agents are listed under the steps that started them, and open in place."""

from uuid import UUID

import pytest
from django.test import Client

from historyapp.models import Episode, Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, failed, ok


def start(project: Project, parent: Session, step: int, title: str, steps: int = 30) -> Session:
    child = create_session(project, names={"title": title})
    append(project, child.pk, [one for _ in range(steps - 1) for one in (act(), ok())] + [act(), failed()])
    position = Episode.objects.get(session=parent, number=step).first_position
    Session.objects.filter(pk=child.pk).update(spawned_by=parent, spawned_position=position)
    return child


@pytest.fixture
def parent(project: Project) -> Session:
    """Its second step starts a sub-agent."""
    parent = create_session(project)
    append(project, parent.pk, [ask("go"), act(), ok(), act("task", prompt="look"), ok(), act(), ok()])
    parent.refresh_from_db()
    return parent


def opened(client: Client, session: UUID, query: str = "") -> str:
    return html(fragment(client, f"/sessions/{session}/subagent-steps{query}"))


def test_a_sub_agent_is_listed_under_its_step_with_its_figures(
    alice: Client, project: Project, parent: Session
) -> None:
    child = start(project, parent, 2, "<b>Explorer</b>")
    rows = html(alice.get(f"/sessions/{parent.pk}?step=1")).partition('id="rows"')[2]
    place = rows.index('class="subagent" data-turn="1"')
    assert rows.index('data-step="2"') < place < rows.index('data-step="3"')
    assert "&lt;b&gt;Explorer" in rows
    assert f'href="/sessions/{child.pk}"' in rows
    assert "30 steps" in text(alice.get(f"/sessions/{parent.pk}?step=1"))
    assert "1 failed" in rows[place:]


def test_steps_of_a_sub_agent_are_loaded_25_at_a_time_and_link_to_its_page(
    alice: Client, project: Project, parent: Session
) -> None:
    child = start(project, parent, 2, "Explorer")
    first = opened(alice, child.pk)
    assert first.count('<li class="row">') == 25
    assert f'href="/sessions/{child.pk}?step=25"' in first
    assert "data-step=" not in first, "the playhead of the page is not in these rows"
    assert f"/sessions/{child.pk}/subagent-steps?after=25" in first
    rest = opened(alice, child.pk, "?after=25")
    assert rest.count('<li class="row">') == 5
    assert "Later steps" not in rest
    plain = alice.get(f"/sessions/{child.pk}/subagent-steps")
    assert (plain.status_code, plain["Location"]) == (302, f"/sessions/{child.pk}?step=1")


def test_a_sub_agent_of_a_sub_agent_opens_in_place_too(
    alice: Client, project: Project, parent: Session
) -> None:
    child = start(project, parent, 2, "Explorer")
    Episode.objects.filter(session=child, number=3).update(kind="agent")
    grandchild = start(project, child, 3, "Reader", 2)
    assert f"/sessions/{grandchild.pk}/subagent-steps" in opened(alice, child.pk)


def test_a_fork_shows_the_sub_agents_of_the_steps_that_it_shares(
    alice: Client, project: Project, parent: Session
) -> None:
    child = start(project, parent, 2, "Explorer")
    copy = fork(project, parent.pk, at_position=parent.head)
    assert f"/sessions/{child.pk}/subagent-steps" in html(alice.get(f"/sessions/{copy.pk}"))
    early = fork(project, parent.pk, at_position=3)
    append(project, early.pk, [act("task", prompt="other"), ok()])
    assert f"/sessions/{child.pk}/subagent-steps" not in html(alice.get(f"/sessions/{early.pk}")), (
        "its own step"
    )


def test_strangers_do_not_see_the_steps_of_a_sub_agent(
    charlie: Client, project: Project, parent: Session
) -> None:
    child = start(project, parent, 2, "Explorer")
    assert fragment(charlie, f"/sessions/{child.pk}/subagent-steps").status_code == 404
