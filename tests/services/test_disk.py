"""A step of 3.2 KB takes at most 4.5 KB on disk in SQLite. ``bench/footprint.py`` measures it over HTTP."""

from itertools import islice
from typing import Any

import pytest
from django.db import connection

from bench.footprint import texts_of_project
from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults, UseTool
from historyapp.models import Project, Session
from historyapp.models.snapshot_histories import TrackedHistory
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import packed_excerpts
from historyapp.services.statements import store_excerpts
from tests.examples import thorough
from tests.services.drafts import draft

STEPS = 150


def used_bytes() -> int:
    """All pages with rows or index entries, without free ones."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT SUM(pgsize) FROM dbstat")
        return int(cursor.fetchone()[0])


def drafts_of(action: dict[str, Any], result: dict[str, Any]) -> tuple[EntryDraft, EntryDraft]:
    proposal = ModelOutput(thoughts=action["thoughts"], use_tool=UseTool(**action["use_tool"]))
    return draft(proposal), draft(ToolResults(results=(ToolResult(**result),)))


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="the bound is that of SQLite")
@pytest.mark.parametrize("read_by_contexts", [True, thorough(False)])
def test_a_step_takes_at_most_four_and_a_half_kilobytes(read_by_contexts: bool) -> None:
    """Texts of this project, which seldom repeat, appended by two requests for each step.

    If a context reads the session after each step, the excerpts of steps are stored, too.
    """
    session = create_session(Project.objects.create(name="ours"))
    before = used_bytes()
    for action, result in islice(texts_of_project(), STEPS):
        for one in drafts_of(action, result):
            append(session.project, session.pk, [one])
        if read_by_contexts:
            history = TrackedHistory(Session.objects.get(pk=session.pk))
            history.outline(history.steps, history.steps)
            assert len(history.new_excerpts) == 1
            store_excerpts(packed_excerpts(history.new_excerpts))
    size = (used_bytes() - before) / STEPS
    assert 3000 < size <= 4500
