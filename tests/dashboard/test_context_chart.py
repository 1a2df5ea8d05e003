"""The chart of the size of the context on the overview page."""

import re

from django.test import Client

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html
from tests.services.drafts import act, answer, ok


def test_a_single_size_is_drawn_across_its_step(alice: Client, project: Project) -> None:
    """The path of one point alone would be invisible. Nothing is known about what preceded step 1."""
    session = create_session(project)
    append(project, session.pk, [act(), ok(), answer()])
    page = html(alice.get(f"/sessions/{session.pk}/overview"))
    assert re.search(r'class="context-line" d="M500 [\d.]+L1000 [\d.]+"', page)
