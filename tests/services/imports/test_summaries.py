"""Summaries of a transcript: their steps, their age, and the cost of many."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pytest_django import DjangoAssertNumQueries

from historyapp.core.importers.base import AddSummary, Append, Operation, RewindTo, SessionStart
from historyapp.models import Entry, Project, Session, Summary
from historyapp.models.history import History
from historyapp.models.summaries import SummaryQuerySet
from historyapp.services.append import append, lock_session
from historyapp.services.imports import summaries, writer
from historyapp.services.imports.files import import_file
from historyapp.services.imports.summaries import write_summaries
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, answer, ask, ok
from tests.services.scripts import SOURCE, Script, read, texts


def test_summaries_in_the_file_cover_their_steps(project: Project, script: Script) -> None:
    steps = [Append("s", act()), Append("s", ok()), Append("s", answer())]
    file: list[Operation] = [*steps, AddSummary("s", 1, 2, "looked")]
    read(project, script, *file)
    read(project, script, *file)
    summary = Summary.objects.get()
    assert (summary.first_step, summary.last_step, summary.text) == (1, 1, "looked")
    assert History(Session.objects.get()).episodes(1, 2)[0].summary == "looked"


def test_a_summary_can_begin_at_a_position_that_is_not_live(project: Project, script: Script) -> None:
    rewound = [*texts("a", "b"), RewindTo("s", 1), Append("s", act()), Append("s", ok())]
    read(
        project, script, *rewound, AddSummary("s", 3, 5, "from the rewind on"), AddSummary("s", 6, 9, "later")
    )
    summary = Summary.objects.get()
    tokens = Entry.objects.filter(position__in=(1, 4, 5)).values_list("tokens", flat=True)
    assert (summary.first_position, summary.last_step, summary.tokens_before) == (3, 1, sum(tokens))


def test_a_summary_has_the_age_from_the_file(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_ENTRIES", 2)
    file: list[Operation] = []
    for at in (2, 4, 6):
        file += [Append("s", act()), Append("s", ok())]
        file.append(AddSummary("s", at - 1, at, f"by {at}", made_at=at))
    read(project, script, *file, Append("s", answer()))
    assert list(Summary.objects.order_by("id").values_list("made_at", flat=True)) == [2, 4, 6]


def test_a_transaction_stores_a_limited_number_of_characters(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 summaries with key points of 4 MB each were written in one transaction."""
    monkeypatch.setattr(writer, "BATCH_BYTES", 10_000)
    stored = list[int]()

    def write(session: Session, batch: Sequence[AddSummary], *known: Any) -> None:
        stored.append(len(batch))
        write_summaries(session, batch, *known)

    monkeypatch.setattr(writer, "write_summaries", write)
    points = ("x" * 1_500, "y" * 2_500)
    file = [AddSummary("s", 1, 2, f"{number}", key_points=points) for number in range(7)]
    read(project, script, Append("s", act()), Append("s", ok()), *file)
    assert stored == [3, 3, 1]
    assert Summary.objects.count() == 7


def test_a_transaction_stores_summaries_of_limited_memory(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven summaries of a million emoji made appends of others wait 2.9 s."""
    monkeypatch.setattr(summaries, "MAX_BYTES", 10_000)
    stored = list[list[int]]()

    def write(session: Session, batch: Sequence[AddSummary], *known: Any) -> None:
        stored.append([len(summary.text) for summary in batch])
        write_summaries(session, batch, *known)

    monkeypatch.setattr(writer, "write_summaries", write)
    lengths = (1_000, 1_000, 1_000, 4_000, 10, 10, 10)
    file = [AddSummary("s", 1, 2, chr(0x1F600 + n) * length) for n, length in enumerate(lengths)]
    read(project, script, Append("s", act()), Append("s", ok()), *file)
    assert stored == [[1_000, 1_000], [1_000], [4_000], [10, 10, 10]]
    assert Summary.objects.count() == 7


def test_a_summary_that_a_grown_file_adds_does_not_change_the_past(project: Project, script: Script) -> None:
    steps: list[Operation] = [Append("s", act()), Append("s", ok())]
    read(project, script, *steps, *steps)
    session = Session.objects.get()
    append(project, session.pk, [ask("meanwhile")])
    read(project, script, *steps, *steps, AddSummary("s", 1, 2, "long ago", made_at=2))
    assert Summary.objects.get().made_at == 5
    assert History(session, 4).summaries() == []


def test_the_last_of_two_summaries_wins(project: Project, script: Script) -> None:
    steps: list[Operation] = [Append("s", act()), Append("s", ok())]
    read(project, script, *steps)
    session = Session.objects.get()
    add_summary(project, session.pk, (1, 1), SummaryText("by hand"))
    old = AddSummary("s", 1, 2, "read later", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    read(project, script, *steps, old)
    newest = next(History(session).summaries_newest_first(99))
    assert History(session).episodes(1, 1)[0].summary == newest.text == "read later"


def test_names_of_a_summary_are_cut_to_the_limit_of_the_database(project: Project, script: Script) -> None:
    steps: list[Operation] = [Append("s", act()), Append("s", ok())]
    odd = AddSummary("s", 1, 2, "looked", strategy="\ud800\0" + "x" * 60, model="m" * 300)
    for _ in range(2):
        assert read(project, script, *steps, odd).error == ""
    summary = Summary.objects.get()
    assert (len(summary.strategy), len(summary.model)) == (50, 200)


def test_any_number_of_summaries_takes_the_same_few_queries(
    project: Project, script: Script, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    steps = [Append("s", act()), Append("s", ok())]
    many = [AddSummary("s", 1, 2, f"summary {number}") for number in range(60)]
    read(project, script, *steps)
    with django_assert_max_num_queries(25):
        read(project, script, *steps, *many)
    assert Summary.objects.count() == 60


def test_many_summaries_are_written_while_the_file_is_read(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_ENTRIES", 3)
    there: list[int] = []

    def changed_operations() -> Iterator[Operation]:
        yield from (SessionStart("s"), Append("s", act()), Append("s", ok()))
        for number in range(8):
            yield AddSummary("s", 1, 2, f"summary {number}")
            there.append(Summary.objects.count())

    for expected in ([0, 0, 3, 3, 3, 6, 6, 6], [8] * 8):
        script.operations = changed_operations()
        there.clear()
        import_file(project, SOURCE, format="script")
        assert there == expected
    assert Summary.objects.count() == 8
    assert Entry.objects.count() == 2


def test_a_transaction_stores_few_summaries(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()

    def noting(session: Session, batch: Sequence[AddSummary], *more: Any) -> None:
        sizes.append(len(batch))
        write_summaries(session, batch, *more)

    monkeypatch.setattr(writer, "write_summaries", noting)
    many = [AddSummary("s", 1, 2, f"summary {number}") for number in range(250)]
    read(project, script, Append("s", act()), Append("s", ok()), *many)
    assert sizes == [100, 100, 50]
    assert Summary.objects.count() == 250


def test_summaries_with_the_same_end_are_limited_and_read_once(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "MAX_SAME_END", 5)
    monkeypatch.setattr(summaries, "AT_ONCE", 2)
    texts_read = list[UUID]()
    read_texts = SummaryQuerySet.read

    def noting(rows: SummaryQuerySet, ids: Iterable[UUID]) -> Iterator[Summary]:
        texts_read.extend(ids := list(ids))
        return read_texts(rows, ids)

    monkeypatch.setattr(SummaryQuerySet, "read", noting)
    many = [AddSummary("s", 1, 2, f"summary {number}") for number in range(9)]
    other = [AddSummary("s", 1, 4, "of another range"), AddSummary("s", 3, 4, "another")]
    steps = [Append("s", act()), Append("s", ok()), Append("s", act()), Append("s", ok())]
    read(project, script, *steps, *many, *other)
    assert Summary.objects.filter(last_position=2).count() == 5
    assert Summary.objects.filter(last_position=4).count() == 2
    assert sorted(texts_read) == sorted(set(texts_read))


def test_a_summary_that_is_stored_during_the_import_is_not_stored_again(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [Append("s", act()), Append("s", ok())]
    read(project, script, *steps)
    session = Session.objects.get()

    def locking(project: Project, session_id: UUID) -> Session:
        if not Summary.objects.exists():
            add_summary(project, session.pk, (1, 1), SummaryText("looked"))
        return lock_session(project, session_id)

    monkeypatch.setattr(writer, "lock_session", locking)
    read(project, script, *steps, AddSummary("s", 1, 2, "looked"), AddSummary("s", 1, 2, "more"))
    assert list(Summary.objects.order_by("id").values_list("text", flat=True)) == ["looked", "more"]


def test_a_summary_made_later_is_added_to_an_imported_session(project: Project, script: Script) -> None:
    steps: list[Operation] = [Append("s", act()), Append("s", ok())]
    more: list[Operation] = [Append("s", act()), Append("s", ok())]
    read(project, script, *steps, *more, AddSummary("s", 3, 4, "second"))
    before = Session.objects.get().revision
    read(project, script, *steps, AddSummary("s", 1, 2, "first"), *more, AddSummary("s", 3, 4, "second"))
    assert Session.objects.get().revision > before
    assert sorted(Summary.objects.values_list("text", flat=True)) == ["first", "second"]
    assert Session.objects.count() == 1
