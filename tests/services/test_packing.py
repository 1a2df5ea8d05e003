"""Bodies of a long append are compressed in a thread that all appends share."""

import threading
from collections.abc import Sequence

import pytest
from django.db import connection

from historyapp.models import Entry, Project, Session, fields
from historyapp.services import packing, statements
from historyapp.services.append import append
from tests.services.drafts import ask

pytestmark = pytest.mark.skipif(
    "config.getoption('database') != 'sqlite'", reason="PostgreSQL compresses long values automatically"
)


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


@pytest.mark.django_db(transaction=True)
def test_a_long_body_is_packed_before_other_writers_have_to_wait(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_transaction = list[bool]()

    def pack_all(texts: Sequence[str]) -> list[str | bytes]:
        in_transaction.append(connection.in_atomic_block)
        return fields.pack_all(texts)

    for module in (packing, statements):
        monkeypatch.setattr(module, "pack_all", pack_all)
    append(project, session.pk, [ask("needle " * 100_000)])
    append(project, session.pk, [ask("needle")])
    assert in_transaction == [False, True]
