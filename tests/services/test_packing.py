"""Bodies of a long append are compressed in a thread that all appends share. Manifests are compressed too."""

import threading
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from historyapp.core.json import dump_json
from historyapp.models import Entry, Project, Session, Snapshot, fields
from historyapp.models.sql import fetch_all
from historyapp.services import packing, statements
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.snapshots import record_snapshot, serve_context
from tests.services.drafts import answer, ask

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


def test_manifests_of_snapshots_are_stored_compressed(project: Project, session: Session) -> None:
    """Each recorded context of a session of 6,000 steps stored 126 to 251 KB."""
    append(project, session.pk, [answer("done")] * 300)
    served = serve_context(Session.objects.get(pk=session.pk), RequestedContext(policy="live"))
    manifest = record_snapshot(served).manifest
    stored = "SELECT length(manifest) FROM historyapp_snapshot"
    [(length,)] = fetch_all(stored, [])
    assert Snapshot.objects.get().manifest == manifest
    import_module("historyapp.migrations.0064_packed_snapshots").decompress(
        apps, SimpleNamespace(connection=connection)
    )
    [(plain,)] = fetch_all(stored, [])
    assert plain == len(dump_json(manifest)) > 8 * length
    assert Snapshot.objects.get().manifest == manifest
