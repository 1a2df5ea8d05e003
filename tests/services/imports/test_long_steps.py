"""Rewinds and forks of an import that cut long steps."""

import io
from collections.abc import Sequence

import pytest
from django.db import connection

from historyapp.core.entries import DebugLog, EntryDraft, Review
from historyapp.core.importers.base import Source
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail
from historyapp.models import Entry, Project, Session, fields, tails
from historyapp.services import rewinds, statements
from historyapp.services.append import append
from historyapp.services.exports import export_session
from historyapp.services.imports import tails as tails_of_files
from historyapp.services.imports import writer
from historyapp.services.imports.files import import_file
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import ask, ok, tool_calls

LONG = "x" * 600_000


@pytest.fixture
def transcript(project: Project) -> Source:
    """Two rewinds into a step of 1.2 MB, an input, a third rewind, and a fork within the step."""
    session = create_session(project, names={"title": "long"})
    append(project, session.pk, [ask("go"), tool_calls("a", "b"), ok("a", LONG), ok("b", LONG)])
    for position in (3, 4):
        rewind(project, session.pk, Target(to_position=position))
    append(project, session.pk, [ask("more")])
    rewind(project, session.pk, Target(to_position=3))
    fork(project, session.pk, at_position=3)
    text = "".join(export_session(Session.objects.get(pk=session.pk), "playhead_jsonl").chunks)
    return Source("export.jsonl", io.BytesIO(text.encode()))


@pytest.fixture
def elsewhere(db: None) -> Project:
    return Project.objects.create(name="Bob's")


@pytest.fixture
def read_in_transaction(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each tail was read within a transaction of the import."""
    outer, within = len(connection.savepoint_ids), list[bool]()

    def tail_of(lineage: Lineage) -> Tail:
        within.append(len(connection.savepoint_ids) > outer)
        return tails.tail_of(lineage)

    monkeypatch.setattr(rewinds, "tail_of", tail_of)
    monkeypatch.setattr(tails_of_files, "tail_of", tail_of)
    return within


def test_long_steps_are_read_before_transactions(
    transcript: Source, elsewhere: Project, read_in_transaction: list[bool]
) -> None:
    """On SQLite a transaction delays all other writers."""
    report = import_file(elsewhere, transcript)
    assert report.error == ""
    parent, child = Session.objects.filter(project=elsewhere).order_by("fork_position")
    assert (parent.head, child.fork_position) == (8, 3)
    assert Entry.objects.filter(session=parent, kind="rewind").count() == 3
    assert read_in_transaction == [False] * 3  # the second rewind to position 3 needs no further read


@pytest.mark.parametrize("entry", [Review(analysis="ok"), DebugLog(category="", message="")])
def test_a_step_of_many_short_entries_is_read_once_before_the_transactions(
    project: Project, elsewhere: Project, read_in_transaction: list[bool], entry: Review | DebugLog
) -> None:
    """25 rewinds in a transaction read 18,000 entries each."""
    session = create_session(project)
    append(project, session.pk, [tool_calls("a"), *[EntryDraft(entry)] * 40])
    for _ in range(8):
        rewind(project, session.pk, Target(to_position=41))
    fork(project, session.pk, at_position=41)
    text = "".join(export_session(Session.objects.get(pk=session.pk), "playhead_jsonl").chunks)
    read_in_transaction.clear()
    source = Source("export.jsonl", io.BytesIO(text.encode()))
    assert import_file(elsewhere, source).error == ""
    assert Entry.objects.filter(session__project=elsewhere, kind="rewind").count() == 8
    assert read_in_transaction == [False]


def test_short_steps_are_read_within_the_transaction_of_their_batch(
    transcript: Source, elsewhere: Project, read_in_transaction: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SHORT_STEP_BYTES", 1 << 30)
    assert import_file(elsewhere, transcript).error == ""
    assert read_in_transaction == [True] * 3 + [False]


def test_an_import_may_read_a_limited_number_of_bytes_of_long_steps(
    transcript: Source, elsewhere: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails_of_files, "MAX_CUT_BYTES", 1_000_000)
    report = import_file(elsewhere, transcript)
    assert "more than 1,000,000 bytes of the steps that they cut" in report.error
    (session,) = Session.objects.filter(project=elsewhere)
    assert session.head == 4
    monkeypatch.undo()
    transcript.stream.seek(0)
    assert import_file(elsewhere, transcript).error == ""
    session.refresh_from_db()
    assert session.head == 8


def test_long_entries_are_compressed_before_the_transaction_of_their_batch(
    transcript: Source, elsewhere: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressing 80 MB takes two seconds."""
    outer, within = len(connection.savepoint_ids), list[bool]()

    def pack_all(texts: Sequence[str]) -> list[str | bytes]:
        if any(len(text) >= len(LONG) for text in texts):
            within.append(len(connection.savepoint_ids) > outer)
        return fields.pack_all(texts)

    for module in (writer, statements):
        monkeypatch.setattr(module, "pack_all", pack_all)
    assert import_file(elsewhere, transcript).error == ""
    assert within
    assert not any(within)
    parent = Session.objects.get(project=elsewhere, fork_position=0)
    original = Session.objects.exclude(project=elsewhere).get(fork_position=0)
    copied, written = (session.entries.order_by("position")[:4] for session in (parent, original))
    assert [entry.body for entry in copied] == [entry.body for entry in written]
