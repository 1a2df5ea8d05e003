"""What the storing process unpacks for one operation is limited: no other thread runs meanwhile."""

import pickle
from collections import Counter
from typing import Any

import pytest

from historyapp.core.entries import EntryDraft, Rewind
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    MAX_SESSION_ID,
    AddNote,
    AddSummary,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
)
from historyapp.core.json_memory import memory_of
from historyapp.models import ImportSource, Project, Session
from historyapp.services.imports import files, headers
from historyapp.services.imports.headers import within_limits
from historyapp.services.imports.parser import ParsedOperation
from historyapp.services.imports.reports import FileReport
from historyapp.services.imports.sessions import ImportJob
from tests.services.scripts import Script, read, texts

LONG = "\udcff" * 100_000
"""Bytes that are not UTF-8, as an importer reads them. Each takes as long as a hundred letters to unpack."""
FIELDS = {"a": LONG}


@pytest.mark.parametrize(
    "operation",
    [
        SessionStart("s", LONG, LONG, LONG, (LONG,) * 60, LONG, LONG, LONG, status=LONG),
        SessionStart("s", settings=FIELDS, metadata=FIELDS, annotation=FIELDS),
        RewindTo("s", 1, LONG, LONG),
        AddSummary("s", 1, 1, LONG, LONG, LONG, (LONG,)),
        AddNote("s", 1, LONG, LONG),
        Skipped(1, LONG),
    ],
)
def test_an_operation_has_few_lone_surrogates(operation: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summary of 30 MB stopped the web process for 3.7 s, and so did a record with a name of 28 MB."""
    monkeypatch.setattr(headers, "MAX_SUMMARY", 10_000)
    pickled = pickle.dumps(within_limits(operation))
    assert pickled.count(LONG[0].encode("utf-8", "surrogatepass")) <= 10_200
    assert len(pickled) < 70_000


def test_a_session_with_a_very_long_id_is_refused() -> None:
    """Each entry and each call without an id repeated it: 0.3 MB stored hundreds of MB."""
    longest = SessionStart("x" * MAX_SESSION_ID)
    assert within_limits(longest) == longest
    with pytest.raises(UnreadableTranscript, match="has 301 characters, and at most 300 are supported"):
        within_limits(SessionStart("x" * (MAX_SESSION_ID + 1)))


def test_a_long_summary_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MAX_SUMMARY", 10)
    assert within_limits(AddSummary("s", 1, 1, "x\udcff" * 10)) == AddSummary("s", 1, 1, "x\ufffd" * 5)


NESTED: dict[str, Any] = {"a": [[[[]]] for _ in range(5_000)]}
"""20,000 lists in 40 KB of JSON."""


def test_an_import_keeps_the_headers_of_a_file_as_text(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers of 29 MB took 1.4 GB in the web process, and others waited 8 s for the garbage collector."""
    jobs = list[ImportJob]()

    class KeptJob(ImportJob):
        def __init__(self, project: Project, report: FileReport, variants: Counter[str]) -> None:
            super().__init__(project, report, variants)
            jobs.append(self)

    monkeypatch.setattr(files, "ImportJob", KeptJob)
    start = SessionStart(
        "t", metadata=NESTED, settings={"max_tokens": 5_000}, annotation={"note": "good"}, status="finished"
    )
    for _ in ("new", "imported before"):
        assert read(project, script, start, *texts("go", session="t")).error == ""
        writer = jobs[-1].writers["t"]
        for kept in (jobs[-1].starts["t"], writer.start):
            assert (kept.settings, kept.metadata, kept.annotation) == ({}, {}, {})
        assert not ImportSource.session.is_cached(writer.source)  # its session has the values too
    session = Session.objects.get(title="")
    assert (session.metadata, session.settings["max_tokens"]) == (NESTED, 5_000)
    assert session.annotation.note == "good"


def test_the_metadata_of_waiting_rewinds_counts_as_memory(project: Project, script: Script) -> None:
    """Otherwise those of a file take as much as its headers."""
    draft = EntryDraft(Rewind(to_position=1, spans=()), metadata=NESTED)
    rewinds = [RewindTo("s", 1, draft=draft)] * 3
    job = ImportJob(project, FileReport("a", "script"), Counter())
    for operation in [SessionStart("s"), *texts("a"), *rewinds]:
        job.add(ParsedOperation(within_limits(operation)))
    assert job.writers["s"].waiting_bytes > 2 * memory_of(NESTED)
