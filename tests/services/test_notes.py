"""Writing notes concurrently."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from uuid import UUID

import pytest
from django.db import connection

from historyapp.core.text import clean
from historyapp.models import Project, Session, StepNote
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import fork
from tests.services.drafts import act, ok


@pytest.mark.django_db(transaction=True)
def test_two_forks_can_note_a_shared_step_concurrently(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [act(), ok()])
    forks = [fork(project, session.pk, at_step=1).pk for _ in range(2)]
    found_none = Barrier(2)

    def clean_together(text: str) -> str:
        with suppress(BrokenBarrierError):  # the other thread waits for a lock
            found_none.wait(0.3)
        return clean(text)

    def note(session_id: UUID) -> None:
        try:
            put_note(project, session_id, 1, "mine")
        finally:
            connection.close()

    monkeypatch.setattr("historyapp.services.notes.clean", clean_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(note, forks))
    assert [row.session_id for row in StepNote.objects.all()] == [session.pk]
