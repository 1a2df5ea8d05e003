"""An exported session can be imported, and the copy is equal."""

import io
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.entries import SystemInstruction
from historyapp.core.errors import Conflict, Invalid
from historyapp.core.exporters import EXPORTERS
from historyapp.core.importers.base import Source
from historyapp.models import (
    Annotation,
    AuditRecord,
    Entry,
    Project,
    Session,
    StepNote,
    Summary,
    fields,
    long_rows,
    own_rows,
)
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.exports import export_session
from historyapp.services.imports.files import import_file
from historyapp.services.imports.writer import SHORT_STEP_BYTES
from historyapp.services.notes import put_note
from historyapp.services.projections import parents_first, rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.examples import examples
from tests.services.drafts import act, answer, ask, draft, failed, ok, tool_calls

SUMMARY = (
    *("first_position", "last_position", "first_step", "last_step", "level"),
    *("text", "strategy", "tokens_before", "tokens_after", "made_at", "created_at"),
)
ODD = "\x00 \ud800 日本 🚀"


@pytest.fixture(scope="module")
def recorded_once(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Session]:
    """A session with takes, forks of forks and summaries. Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Alice's")
        session = create_session(project, names={"title": "A  long run", "agent": "coder"}, tags=["a", "b c"])
        append(project, session.pk, [draft(SystemInstruction(text=ODD)), ask("go"), act(path=ODD), failed()])
        append(project, session.pk, [tool_calls("x", "y"), ok("x"), ok("y", {"deep": [1, None]})])
        add_summary(project, session.pk, (1, 2), SummaryText("it failed, then worked"))
        rewind(project, session.pk, Target(to_step=1), reason="a better idea")
        append(project, session.pk, [act("grep"), ok()])
        child = fork(project, session.pk, at_step=1)
        append(project, child.pk, [answer("in the fork")])
        grandchild = fork(project, child.pk)
        append(project, grandchild.pk, [act("more")])
        add_summary(project, grandchild.pk, (1, 2), SummaryText("the fork's own words for what it shares"))
        yield session
        transaction.set_rollback(True)


@pytest.fixture
def recorded(recorded_once: Session, db: None) -> Session:
    return Session.objects.select_related("project").get(pk=recorded_once.pk)


def exported(session: Session, format: str = "playhead_jsonl") -> str:
    return "".join(export_session(session, format).chunks)


def imported(project: Project, text: str) -> list[Session]:
    report = import_file(project, Source("export.jsonl", io.BytesIO(text.encode())))
    assert (report.error, report.skipped) == ("", [])
    return [Session.objects.get(pk=session.id) for session in report.sessions]


def contents(session: Session) -> dict[str, object]:
    """Everything of a session, except ids and creation times."""
    entries = session.entries.order_by("position")
    names = ("title", "agent", "model", "status", "tags", "settings", "metadata", "head", "steps", "errors")
    return {
        **{name: getattr(session, name) for name in (*names, "tokens", "fork_position", "created_at")},
        "entries": [(e.position, e.kind, e.created_at, e.metadata, e.tokens, e.totals) for e in entries],
        "bodies": [e.body for e in entries if e.kind != "rewind"],
        "live": [e.position for e in History(session).entries()],
        "rows": [(r.number, r.status, r.call_preview) for r in History(session).rows(1, 999)],
        "summaries": [
            (*(getattr(summary, name) for name in SUMMARY), summary.session_id == session.pk)
            for summary in Summary.objects.filter(made_in=session).order_by("created_at", "id")
        ],
    }


def test_a_session_is_imported_unchanged_with_its_takes_and_forks(recorded: Session) -> None:
    elsewhere = Project.objects.create(name="Bob's")
    copies = imported(elsewhere, exported(recorded))
    originals = [recorded, recorded.forks.get(), recorded.forks.get().forks.get()]
    assert [contents(copy) for copy in copies] == [contents(original) for original in originals]
    assert copies[1].forked_from == copies[0]
    for session in parents_first():
        assert rebuild(session, check_only=True).differences == []


@pytest.fixture
def sub_agent(recorded: Session) -> Session:
    child = create_session(recorded.project, names={"title": "a sub-agent"})
    append(recorded.project, child.pk, [answer("done")])
    Session.objects.filter(pk=child.pk).update(spawned_by=recorded)
    return Session.objects.get(pk=child.pk)


@pytest.mark.parametrize("parent_first", [True, False])
def test_a_sub_agent_is_imported_as_one_whichever_export_is_imported_first(
    recorded: Session, sub_agent: Session, parent_first: bool
) -> None:
    elsewhere = Project.objects.create(name="Bob's")
    files = [exported(recorded), exported(sub_agent)]
    for text in files if parent_first else files[::-1]:
        imported(elsewhere, text)
    copy = Session.objects.get(project=elsewhere, title="a sub-agent")
    assert copy.spawned_by == Session.objects.get(project=elsewhere, title=recorded.title, forked_from=None)
    assert exported(copy).count(str(copy.spawned_by_id)) == 1


def test_a_copy_of_a_sub_agent_beside_the_original_has_the_same_parent(
    recorded: Session, sub_agent: Session
) -> None:
    (copy,) = imported(recorded.project, exported(sub_agent))
    assert copy.pk != sub_agent.pk
    assert copy.spawned_by == recorded


def test_an_export_cannot_tie_a_session_to_one_of_another_project(sub_agent: Session) -> None:
    (copy,) = imported(Project.objects.create(name="Charlie's"), exported(sub_agent))
    assert copy.spawned_by is None


def summaries_over_time(session: Session) -> list[list[str]]:
    """The texts of the live summaries at each earlier head of the session."""
    heads = range(1, session.head + 1)
    return [[s.text for s in History(session, head).summaries()] for head in heads]


def test_imported_summaries_keep_their_age(recorded: Session) -> None:
    originals = [recorded, recorded.forks.get(), recorded.forks.get().forks.get()]
    add_summary(recorded.project, recorded.pk, (1, 2), SummaryText("made later"))
    recorded.refresh_from_db()
    copies = imported(Project.objects.create(name="Bob's"), exported(recorded))
    assert list(map(summaries_over_time, copies)) == list(map(summaries_over_time, originals))
    of_copy = imported(Project.objects.create(name="Carol's"), exported(copies[2]))[-1]
    assert summaries_over_time(of_copy) == summaries_over_time(originals[2])


def test_the_note_and_the_score_of_a_session_are_imported(recorded: Session) -> None:
    change_session(
        recorded.project, recorded.pk, {"note": "Kept it.", "score": 0.5, "score_name": "speed"}, actor="a"
    )
    recorded.refresh_from_db()
    copy, child, *_ = imported(Project.objects.create(name="Bob's"), exported(recorded))
    fields = ("note", "noted_by", "noted_at", "score", "score_name", "scored_by", "scored_at")
    of_each = [Annotation.objects.filter(session=one).values_list(*fields) for one in (recorded, copy)]
    assert list(of_each[0]) == list(of_each[1])
    assert len(of_each[1]) == 1
    assert not Annotation.objects.filter(session=child).exists()


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({"note": "x" * 5_000, "score": True}, ("x" * 2_000, None, "")),
        ({"note": 5, "score": 1e12}, None),
        ({"note": "a\x00", "score": 10**400, "noted_at": "never", "noted_by": []}, ("a\ufffd", None, "")),
        ({"note": " ", "score": -3, "score_name": "y" * 100, "scored_at": 10**30}, ("", -3, "y" * 60)),
        ("odd", None),
    ],
)
def test_only_valid_fields_of_a_session_are_imported(
    recorded: Session, written: object, stored: object
) -> None:
    header, _, rest = exported(recorded).partition("\n")
    text = f"{json.dumps({**json.loads(header), 'annotation': written})}\n{rest}"
    copy, *_ = imported(Project.objects.create(name="Bob's"), text)
    assert (
        Annotation.objects.filter(session=copy).values_list("note", "score", "score_name").first() == stored
    )


def notes_of(session: Session) -> list[tuple[object, ...]]:
    fields = ("position", "number", "text", "actor", "created_at", "updated_at")
    return list(StepNote.objects.filter(session=session).order_by("position").values_list(*fields))


def test_notes_are_imported_also_in_takes_and_forks(recorded: Session) -> None:
    child = recorded.forks.get()
    put_note(recorded.project, recorded.pk, 1, "seen", actor="alice")
    put_note(recorded.project, recorded.pk, 2, as_of=7)
    put_note(recorded.project, child.pk, 2, "in the fork")
    copies = imported(Project.objects.create(name="Bob's"), exported(recorded))
    assert [len(notes_of(session)) for session in copies] == [2, 1, 0]
    assert [notes_of(session) for session in copies[:2]] == [notes_of(recorded), notes_of(child)]


def test_an_export_of_a_position_has_the_notes_up_to_it(recorded: Session) -> None:
    put_note(recorded.project, recorded.pk, 1, "early")
    put_note(recorded.project, recorded.pk, 2, "late")
    text = "".join(export_session(recorded, "playhead_jsonl", as_of=4).chunks)
    copy = imported(Project.objects.create(name="Bob's"), text)[0]
    assert [note[2] for note in notes_of(copy)] == ["early"]


def test_a_note_at_a_place_without_a_step_is_left_out(recorded: Session) -> None:
    put_note(recorded.project, recorded.pk, 1, "here")
    lines = [json.loads(line) for line in exported(recorded).splitlines()]
    for line in lines:
        if line["kind"] == "note":
            line["position"] = 1
    copy = imported(Project.objects.create(name="Bob's"), "\n".join(map(json.dumps, lines)))[0]
    assert notes_of(copy) == []


def test_importing_an_export_again_keeps_a_note_that_was_changed(recorded: Session) -> None:
    put_note(recorded.project, recorded.pk, 1, "before")
    elsewhere, text = Project.objects.create(name="Bob's"), exported(recorded)
    copy = imported(elsewhere, text)[0]
    put_note(elsewhere, copy.pk, 1, "changed")
    imported(elsewhere, text)
    assert [note[2] for note in notes_of(copy)] == ["changed"]


@pytest.mark.parametrize("as_of", [3, 4, 8, 99])
def test_a_fork_can_be_exported_as_of_any_position(recorded: Session, as_of: int) -> None:
    fork = recorded.forks.get()
    as_of = min(as_of, fork.head)
    text = "".join(export_session(fork, "playhead_jsonl", as_of=as_of).chunks)
    copy = imported(Project.objects.create(name="Bob's"), text)[-1]
    assert [entry.body for entry in History(copy).entries() if entry.kind != "rewind"] == [
        entry.body for entry in History(fork, as_of).entries() if entry.kind != "rewind"
    ]
    assert copy.head == as_of


def test_the_winning_summary_also_wins_in_the_copy(recorded: Session) -> None:
    add_summary(recorded.project, recorded.pk, (1, 1), SummaryText("written first"))
    last = add_summary(recorded.project, recorded.pk, (1, 1), SummaryText("written last"))
    Summary.objects.filter(pk=last.pk).update(created_at=recorded.created_at)
    copy = imported(Project.objects.create(name="Bob's"), exported(recorded))[0]
    assert [History(s).episodes(1, 1)[0].summary for s in (recorded, copy)] == ["written last"] * 2


def test_an_archived_session_is_imported_as_archived(recorded: Session) -> None:
    change_session(recorded.project, recorded.pk, {"status": "archived"})
    recorded.refresh_from_db()
    copy = imported(Project.objects.create(name="Bob's"), exported(recorded))[0]
    assert copy.status == "archived"
    assert contents(copy) == contents(recorded)


def test_importing_an_export_twice_adds_nothing(recorded: Session) -> None:
    elsewhere = Project.objects.create(name="Bob's")
    first = imported(elsewhere, exported(recorded))
    assert imported(elsewhere, exported(recorded)) == first
    assert elsewhere.sessions.count() == 3


def test_a_fork_is_exported_with_exactly_the_entries_that_it_shares(recorded: Session) -> None:
    elsewhere = Project.objects.create(name="Bob's")
    grandchild = recorded.forks.get().forks.get()
    copies = imported(elsewhere, exported(grandchild))
    assert contents(copies[-1]) == contents(grandchild)
    assert copies[0].head == recorded.forks.get().fork_position


def test_an_export_reads_one_body_at_a_time(recorded: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred bodies of many MB do not fit into memory."""
    read = list[str]()

    def unpack(stored: str | bytes) -> str:
        read.append(fields.unpack(stored))
        return read[-1]

    monkeypatch.setattr(own_rows, "unpack", unpack)
    chunks = iter(export_session(recorded, "playhead_jsonl").chunks)
    assert len(read) == 0
    while len(read) < 2:
        before = len(read)
        next(chunks)
        assert len(read) <= before + 1
    assert recorded.head > 2


def test_an_export_ends_at_the_requested_position(recorded: Session) -> None:
    text = "".join(export_session(recorded, "markdown", as_of=4).chunks)
    assert "no such file" in text
    assert "grep" not in text
    with pytest.raises(Invalid, match="head"):
        export_session(recorded, "markdown", as_of=10_000)


@pytest.mark.parametrize("format", EXPORTERS)
def test_every_format_can_be_written_and_sent(recorded: Session, format: str) -> None:
    export = export_session(recorded, format, actor="user:alice")
    assert "".join(export.chunks).encode("utf-8")
    assert export.name.startswith("a-long-run-")
    assert AuditRecord.objects.get(action="export").actor == "user:alice"


def piece_starts(session: Session) -> tuple[str, list[int]]:
    """The export of a session, and the number of entries before each query that reads some of its entries."""
    with CaptureQueriesContext(connection) as queries:
        text = exported(session)
    reads = [
        query["sql"] for query in queries if re.search(r"\bbody\b.*FROM .?historyapp_entry\b", query["sql"])
    ]
    offsets = [re.search(r"OFFSET (\d+)", read) for read in reads]
    return text, [int(offset[1]) if offset else 0 for offset in offsets]


def test_long_entries_are_read_in_pieces_of_limited_bytes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    texts = [random.Random(number).randbytes(3000).hex() for number in range(40)]  # zstd: half as long
    append(project, session.pk, [ask(text) for text in texts])
    session.refresh_from_db()
    expected, starts = piece_starts(session)
    assert starts == [0]
    monkeypatch.setattr(long_rows, "AT_ONCE", 10_000)
    text, starts = piece_starts(session)
    assert text == expected
    ends = [*starts[1:], len(texts)]
    assert max(end - start for start, end in zip(starts, ends, strict=True)) <= 4


def rows_by_orm(session: UUID, first: int, last: int) -> QuerySet[Entry]:
    return Entry.objects.filter(session_id=session, position__range=(first, last)).order_by("position")


@pytest.mark.parametrize("positions", [1, 3, 500])
def test_an_export_has_every_entry_in_order_whatever_the_pieces(
    recorded: Session, monkeypatch: pytest.MonkeyPatch, positions: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("historyapp.services.exports.own_rows", rows_by_orm)
        expected = exported(recorded)
    monkeypatch.setattr(own_rows, "_RANGE", positions)
    monkeypatch.setattr(long_rows, "AT_ONCE", 200)
    assert exported(recorded) == expected
    assert expected.count("in the fork") == 1


def test_the_error_of_an_unknown_format_lists_the_known_ones(recorded: Session) -> None:
    with pytest.raises(Invalid, match="playhead_jsonl, openai_messages"):
        export_session(recorded, "pdf")


moves = st.lists(
    st.one_of(
        st.sampled_from([[ask("hi")], [act(), ok()], [act(), failed()], [answer()], [tool_calls("a", "b")]]),
        st.integers(0, 30),
        st.tuples(st.integers(1, 4), st.integers(1, 4)),
    ),
    max_size=12,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves, st.sampled_from([0, SHORT_STEP_BYTES]))
def test_any_history_is_imported_unchanged(project: Project, script: list[object], short: int) -> None:
    """Of entries (lists), rewinds (positions) and summaries (steps)."""
    session = create_session(project)
    for number, move in enumerate(script):
        if isinstance(move, tuple):
            with suppress(Invalid, Conflict):  # no such steps, or one of them in flight
                add_summary(project, session.pk, move, SummaryText(f"summary {number}"))
        elif isinstance(move, int):
            head = Session.objects.get(pk=session.pk).head
            rewind(project, session.pk, Target(to_position=min(move, head)))
        else:
            append(project, session.pk, move, lenient=True)  # type: ignore[arg-type]
    original = Session.objects.get(pk=session.pk)
    elsewhere = Project.objects.create(name="Bob's")
    with patch("historyapp.services.imports.writer.SHORT_STEP_BYTES", short):
        copy = imported(elsewhere, exported(original))[0]
    assert contents(copy) == contents(original)
