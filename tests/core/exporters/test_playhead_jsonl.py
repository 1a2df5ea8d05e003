from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.entries import Entry, ModelInput, Rewind
from historyapp.core.exporters.base import ExportSession, ExportSummary
from historyapp.core.exporters.playhead_jsonl import PLAYHEAD_JSONL
from historyapp.core.importers.base import AddSummary, Append, Operation, RewindTo, SessionStart
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL as IMPORTER
from tests.core.entries import JSON, START, TEXT, entry, logs
from tests.core.importers.reading import read

SUMMARIES = st.builds(
    ExportSummary,
    first_position=st.integers(1, 3),
    last_position=st.integers(4, 8),
    text=TEXT,
    strategy=TEXT.filter(bool),
    model=TEXT,
    key_points=st.lists(TEXT, max_size=2).map(tuple),
    level=st.sampled_from([1, 2, 3]),
    made_at=st.sampled_from([None, 4, 8]),
    created_at=st.sampled_from([None, START]),
)
SUMMARY = ("first_position", "last_position", "text", "key_points", "level", "made_at", "created_at")


@st.composite
def sessions(draw: st.DrawFn, id: str = "s", parent: tuple[str, int] | None = None) -> ExportSession:
    entries = draw(logs(id, (parent[1] if parent else 0) + 1))
    return ExportSession(
        id,
        entries,
        title=draw(TEXT),
        agent=draw(TEXT),
        model=draw(TEXT),
        tags=tuple(draw(st.lists(TEXT, max_size=2))),
        settings=draw(st.dictionaries(TEXT, JSON, max_size=1)),
        metadata=draw(st.dictionaries(TEXT, JSON, max_size=1)),
        forked_from=parent,
        spawned_by=draw(st.sampled_from([None, "parent"])),
        created_at=draw(st.sampled_from([None, START])),
        status=draw(TEXT),
        summaries=draw(st.lists(SUMMARIES, max_size=2)) if len(entries) == 8 else (),
    )


@st.composite
def families(draw: st.DrawFn) -> list[ExportSession]:
    """A session with forks, also of forks, each after its parent."""
    family = [draw(sessions())]
    for number in range(draw(st.integers(0, 2))):
        parent = draw(st.sampled_from(family))
        newest = max((entry.position for entry in parent.entries), default=(parent.forked_from or ("", 0))[1])
        family.append(draw(sessions(f"fork-{number}", (parent.id, draw(st.integers(0, newest))))))
    return family


def entries_of(operations: list[Operation], session: ExportSession) -> list[Entry]:
    """The session's log as the importer reads it."""
    position = session.forked_from[1] if session.forked_from else 0
    entries = []
    for op in operations:
        if isinstance(op, (Append, RewindTo)) and op.session == session.id and op.draft:
            assert op.draft.created_at
            position += 1
            entries.append(Entry(position, op.draft.body, op.draft.created_at, op.draft.metadata))
    return entries


@given(families())
def test_an_export_is_imported_unchanged(family: list[ExportSession]) -> None:
    first, *forks = family
    operations = read(IMPORTER, "".join(PLAYHEAD_JSONL.write(first, forks)))
    starts = {op.session: op for op in operations if isinstance(op, SessionStart)}
    assert list(starts) == [session.id for session in family]
    for session in family:
        start = starts[session.id]
        for name in ("title", "agent", "model", "tags", "settings", "metadata", "created_at", "status"):
            assert getattr(start, name) == getattr(session, name)
        assert start.forked_from == session.forked_from
        assert start.spawned_by == session.spawned_by
        assert entries_of(operations, session) == list(session.entries)
        summaries = [op for op in operations if isinstance(op, AddSummary) and op.session == session.id]
        assert [[getattr(s, name) for name in SUMMARY] for s in summaries] == [
            [getattr(s, name) for name in SUMMARY] for s in session.summaries
        ]
        rewinds = [op for op in operations if isinstance(op, RewindTo) and op.session == session.id]
        assert [op.to_position for op in rewinds] == [
            e.body.to_position for e in session.entries if isinstance(e.body, Rewind)
        ]


@given(families())
def test_the_lines_of_an_export_are_ascii(family: list[ExportSession]) -> None:
    for piece in PLAYHEAD_JSONL.write(family[0], family[1:]):
        assert piece.isascii()
        assert piece.endswith("\n")
        assert piece.count("\n") == 1


def test_an_export_is_written_while_entries_are_read() -> None:
    def endless() -> Any:
        position = 0
        while True:
            position += 1
            yield entry(position, ModelInput(content="hi"))

    pieces = PLAYHEAD_JSONL.write(ExportSession("s", endless()))
    assert '"kind":"session"' in next(pieces)
    assert '"position":1' in next(pieces)
