"""Bodies of a long append are compressed in a thread that all appends share."""

import threading

import pytest

from historyapp.models import Entry, Project, Session
from historyapp.services import packing
from historyapp.services.append import append
from tests.services.drafts import ask


@pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="PostgreSQL compresses by itself")
def test_an_append_does_not_wait_for_the_bodies_of_another(project: Project, session: Session) -> None:
    """It would wait while it holds the lock of the database, and block all other writers."""
    released = threading.Event()
    other = packing._thread.submit(released.wait, 30)
    try:
        texts = [f"{number}: {'needle ' * 40}" for number in range(40)]
        append(project, session.pk, [ask(text) for text in texts])
        assert not other.done()
    finally:
        released.set()
    bodies = [entry.core().body for entry in Entry.objects.order_by("position")]
    assert bodies == [ask(text).body for text in texts]
