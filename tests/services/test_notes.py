"""Writing notes concurrently, and finding those of a fork."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail
from historyapp.core.text import clean
from historyapp.models import Project, Session, StepNote, history, tails
from historyapp.models.sql import fetch_all
from historyapp.services.append import append, lock_session
from historyapp.services.notes import delete_note, put_note
from historyapp.services.rewinds import Target, fork, rewind
from tests.services.drafts import act, ask, ok


@pytest.mark.django_db(transaction=True)
def test_two_forks_can_note_a_shared_step_concurrently(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [act(), ok()])
    forks = [fork(project, session.pk, at_step=1).pk for _ in range(2)]
    found_none = Barrier(2)

    def clean_together(text: str) -> str:
        with suppress(BrokenBarrierError):  # the other thread waits for a lock
            found_none.wait(0.3)
        return clean(text)

    def note(session_id: UUID) -> None:
        try:
            put_note(project, session_id, 1, "mine")
        finally:
            connection.close()

    monkeypatch.setattr("historyapp.services.notes.clean", clean_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(note, forks))
    assert [row.session_id for row in StepNote.objects.all()] == [session.pk]


@pytest.mark.parametrize("most", [1, 2, 3, 1000])
def test_notes_on_other_steps_of_a_parent_hide_none_of_a_fork(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    steps = [draft for _ in range(4) for draft in (act(), ok())]
    append(project, session.pk, [*steps, *steps])
    child = fork(project, session.pk, at_step=2)
    append(project, child.pk, [*steps, *steps])
    for number in (1, 3, 4, 5, 6):
        put_note(project, session.pk, number, f"parent {number}")
    for number in (5, 7, 8):
        put_note(project, child.pk, number, f"fork {number}")
    monkeypatch.setattr("historyapp.models.notes.MAX_NOTES", most)
    child = Session.objects.get(pk=child.pk)
    lineage = child.lineage()
    expected = [(1, "parent 1"), (5, "fork 5"), (7, "fork 7"), (8, "fork 8")]
    assert StepNote.objects.starts_between(child, lineage, 1, 10) == expected[:most]
    assert StepNote.objects.starts_between(child, lineage, 2, 7) == expected[1:3][:most]


@pytest.mark.parametrize("in_memory", [16, 2])
def test_a_fork_reads_no_notes_after_the_last_step_that_it_shares(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", in_memory)
    for number in range(1, 5):
        append(project, session.pk, [act(), ok(), act(), ok()])
        for step in (number, number + 1):
            put_note(project, session.pk, step, f"note {step}")
        session = fork(project, session.pk, at_step=number)
    rows_read = list[tuple[Any, ...]]()

    def read_and_keep(statement: str, values: Iterable[Any]) -> list[Any]:
        rows = fetch_all(statement, values)
        rows_read.extend(rows)
        return rows

    monkeypatch.setattr("historyapp.models.notes.fetch_all", read_and_keep)
    child = Session.objects.get(pk=session.pk)
    lineage = child.lineage()
    assert bool(lineage.older) == (in_memory == 2)
    assert [start for _, start in StepNote.objects.starts_between(child, lineage, 1, 4)] == [
        f"note {step}" for step in range(1, 5)
    ]
    assert sorted(number for _, number, *_ in rows_read) == [1, 2, 3, 4]


def test_a_note_at_an_earlier_position_reads_its_inputs_before_the_transaction(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may take seconds to read, and on SQLite a transaction delays all other writers."""
    outer, within = len(connection.savepoint_ids), list[bool]()

    def tail_of(lineage: Lineage) -> Tail:
        within.append(len(connection.savepoint_ids) > outer)
        return tails.tail_of(lineage)

    append(project, session.pk, [act(), ok(), ask("one"), ask("two")])
    monkeypatch.setattr(history, "tail_of", tail_of)
    put_note(project, session.pk, 1, "put", as_of=3)
    delete_note(project, session.pk, 1, as_of=3)
    assert within == [False, False]


def test_a_note_stays_on_the_step_that_was_found_if_a_rewind_is_faster(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [act(), ok(), act(), ok()])

    def rewind_and_lock(project: Project, session_id: UUID) -> Session:
        rewind(project, session_id, Target(to_position=2))
        append(project, session_id, [act(), ok()])
        return lock_session(project, session_id)

    monkeypatch.setattr("historyapp.services.notes.lock_session", rewind_and_lock)
    put_note(project, session.pk, -1, "the newest")
    rewound = Session.objects.get(pk=session.pk)
    assert [(note.position, note.number) for note in StepNote.objects.all()] == [(3, 2)]
    assert StepNote.objects.starts_between(rewound, rewound.lineage(4), 1, 9) == [(2, "the newest")]
    assert StepNote.objects.starts_between(rewound, rewound.lineage(), 1, 9) == []
