"""What the storing process unpacks for one operation is limited: no other thread runs meanwhile."""

import pickle

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import (
    AddNote,
    AddSummary,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
)
from historyapp.services.imports import headers
from historyapp.services.imports.headers import MAX_SESSION_ID, within_limits

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
