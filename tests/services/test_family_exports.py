"""A zip file in Playhead JSONL has one file for each family of forks, which has each entry once."""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from historyapp.core.errors import NotFound
from historyapp.core.importers.base import Source
from historyapp.models import AuditRecord, Project, Session, Summary
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.bulk import zip_exports
from historyapp.services.bulk.zip_exports import export_zip
from historyapp.services.exports import export_session, export_together
from historyapp.services.imports.files import import_file
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.examples import examples
from tests.purging import purge_everything
from tests.services.drafts import act, answer, ok


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="ours")


def run(project: Project, title: str, steps: int = 4) -> Session:
    session = create_session(project, names={"title": title})
    append(project, session.pk, [draft for number in range(steps) for draft in (act(f"a{number}"), ok())])
    return Session.objects.get(pk=session.pk)


def unpacked(
    project: Project, chosen: Sequence[Session], format: str = "playhead_jsonl"
) -> tuple[Any, dict[str, str]]:
    """The index of the zip file, and its other files."""
    content = b"".join(export_zip(project, [session.pk for session in chosen], format).chunks)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
        assert len(files) == len(archive.namelist())
    return json.loads(files.pop("index.json")), files


def entries(text: str) -> Counter[tuple[str, int]]:
    """The number of lines for each entry, by session and position. Headers have position 0."""
    lines = [json.loads(line) for line in text.splitlines()]
    own = [line for line in lines if line["kind"] not in ("summary", "note")]
    return Counter((line.get("session") or line["id"], line.get("position", 0)) for line in own)


def imported(project: Project, text: str) -> list[Session]:
    report = import_file(project, Source("export.jsonl", io.BytesIO(text.encode())))
    assert (report.error, report.skipped) == ("", [])
    return list(Session.objects.filter(pk__in=[session.id for session in report.sessions]))


def contents(session: Session) -> tuple[object, ...]:
    history = History(session)
    return (
        *(session.title, session.tags, session.head, session.fork_position, session.steps, session.status),
        [(entry.position, entry.kind, entry.created_at, entry.totals) for entry in history.entries()],
        [row.call_preview for row in history.rows(1, 999)],
        sorted(Summary.objects.filter(made_in=session).values_list("text", flat=True)),
        list(session.notes.order_by("position").values_list("position", "text")),
    )


def test_fifteen_forks_are_one_file_with_each_entry_once(project: Project) -> None:
    parent = run(project, "The common start", steps=10)
    put_note(project, parent.pk, 1, "seen", actor="user:alice")
    forks = list[Session]()
    for number in range(15):
        child = fork(project, parent.pk, at_step=1 + number % 10, title=f"fork {number}")
        append(project, child.pk, [act(f"own {number}"), ok()])
        add_summary(project, child.pk, (1, 1), SummaryText(f"of {number}"))
        forks.append(Session.objects.get(pk=child.pk))
    index, files = unpacked(project, forks)
    name = f"the-common-start-{str(parent.pk)[-6:]}.jsonl"
    assert list(files) == [name]
    assert index["files"] == [
        {"file": name, "session": str(one.pk), "title": f"fork {number}"} for number, one in enumerate(forks)
    ]
    counts = entries(files[name])
    assert set(counts.values()) == {1}
    assert len(counts) == 1 + 20 + 15 * 3
    assert AuditRecord.objects.filter(action="export").count() == 15

    elsewhere = Project.objects.create(name="Bob's")
    copies = {copy.title: copy for copy in imported(elsewhere, files[name])}
    assert len(copies) == elsewhere.sessions.count() == 16
    for original in (parent, *forks):
        assert contents(copies[original.title]) == contents(original)


def test_each_family_is_a_file_and_other_formats_have_a_file_for_each_session(project: Project) -> None:
    first, second = run(project, "first"), run(project, "second")
    chosen = [fork(project, first.pk), second, fork(project, first.pk), fork(project, second.pk)]
    foreign = run(Project.objects.create(name="Bob's"), "secret")
    index, files = unpacked(project, [*chosen, foreign])
    names = [row["file"] for row in index["files"]]
    assert [row["session"] for row in index["files"]] == [str(chosen[n].pk) for n in (0, 2, 1, 3)]
    assert names == [names[0], names[0], names[2], names[2]]
    assert list(files) == [names[0], names[2]]
    assert index["not_exported"] == [
        {"session": str(foreign.pk), "reason": f"There is no session {foreign.pk}."}
    ]
    assert "secret" not in "".join(files.values())
    index, files = unpacked(project, chosen, "markdown")
    assert [row["session"] for row in index["files"]] == [str(session.pk) for session in chosen]
    assert len(files) == 4


moves = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("fffar"), st.integers(0, 30)), max_size=12)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves, st.sets(st.integers(0, 9), min_size=1))
def test_a_family_has_exactly_what_exports_of_its_sessions_have(
    project: Project, moves: list[tuple[int, str, int]], chosen: set[int]
) -> None:
    """Of forks (``f``), entries (``a``) and rewinds (``r``) of any session of the family, at any position."""
    family = [run(project, "start")]
    for number, move, position in moves:
        session = Session.objects.get(pk=family[number % len(family)].pk)
        at = min(position, session.head)
        if move == "f":
            family.append(fork(project, session.pk, at_position=at))
        elif move == "r":
            rewind(project, session.pk, Target(to_position=at))
        else:
            append(project, session.pk, [answer("more")])
    sessions = list(
        {family[number % len(family)].pk: family[number % len(family)] for number in chosen}.values()
    )
    sessions = [Session.objects.get(pk=session.pk) for session in sessions]
    alone = [entries("".join(export_session(one, "playhead_jsonl").chunks)) for one in sessions]
    together = entries("".join(export_together(sessions, "playhead_jsonl").chunks))
    assert together.keys() == set().union(*alone)
    assert set(together.values()) == {1}


def test_the_number_of_queries_grows_with_the_sessions_and_not_with_their_square(project: Project) -> None:
    def queries(number: int) -> int:
        parent = run(project, f"{number} forks")
        forks = [fork(project, parent.pk) for _ in range(number)]
        with CaptureQueriesContext(connection) as queried:
            unpacked(project, forks)
        return len(queried)

    few, more, many = queries(5), queries(10), queries(20)
    assert many - more == 2 * (more - few)


def test_the_index_names_a_session_that_was_deleted_during_the_export(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_exports, "_CHUNK_SIZE", 1)
    deleted, kept = run(project, "deleted"), run(project, "kept")
    chunks = export_zip(project, [deleted.pk, kept.pk], "playhead_jsonl").chunks
    content = next(chunks)
    purge_everything(project, [deleted.pk])
    with zipfile.ZipFile(io.BytesIO(content + b"".join(chunks))) as archive:
        assert archive.testzip() is None
        index = json.loads(archive.read("index.json"))
    assert [row["session"] for row in index["files"]] == [str(kept.pk)]
    assert [row["session"] for row in index["not_exported"]] == [str(deleted.pk)]
    assert "deleted during the export" in index["not_exported"][0]["reason"]


def test_deleted_sessions_cannot_be_exported_together(project: Project) -> None:
    sessions = [run(project, "one"), run(project, "two")]
    purge_everything(project)
    with pytest.raises(NotFound, match="deleted"):
        export_together(sessions, "playhead_jsonl")
