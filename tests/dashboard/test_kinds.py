"""The session's page shows entries of every kind between two steps."""

import pytest
from django.test import Client

from dashboard.rendering.step import BETWEEN_STEPS
from historyapp.core.entries import EntryDraft
from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.core.entries import sample
from tests.dashboard.pages import text

WORDS = "the garden wall"


@pytest.mark.parametrize("kind", BETWEEN_STEPS)
def test_an_entry_is_shown_with_the_step_after_it(alice: Client, project: Project, kind: str) -> None:
    session = create_session(project)
    body = sample(kind, WORDS)
    append(project, session.pk, [EntryDraft(body), EntryDraft(sample("model_output"))])
    page = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert WORDS in page
    assert body.heading in page
