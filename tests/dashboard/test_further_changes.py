"""The overview's sentence about commands that may change files which they do not name."""

from django.test import Client

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.dashboard.test_overview import address
from tests.services.drafts import act, ok


def test_commands_that_may_change_further_files_lead_to_their_steps(alice: Client, project: Project) -> None:
    session = create_session(project)
    for command in ("git stash", "cat a.py", "git rebase main"):
        append(project, session.pk, [act("bash", command=command), ok()])
    page = alice.get(address(session))
    sentence = "Commands that may change further files, such as git stash: steps 1 , 3"
    assert sentence in text(page)
    assert f'<a href="/sessions/{session.pk}?step=3">3</a></p>' in html(page)
    other = create_session(project)
    append(project, other.pk, [act("bash", command="rm a.py"), ok()])
    assert "further files" not in text(alice.get(address(other)))
