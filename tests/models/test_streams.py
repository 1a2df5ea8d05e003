"""Policies read only as much of a session as they consume, newest first, whatever its length."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from historyapp.core import entries as core
from historyapp.core.errors import Invalid
from historyapp.core.policies import POLICIES
from historyapp.models import (
    Entry,
    Episode,
    Project,
    Session,
    Summary,
    entries,
    sql,
    step_groups,
    summary_texts,
)
from historyapp.models.history import History
from historyapp.models.long_rows import bytes_left
from historyapp.models.summaries import SummaryRow
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.snapshots import serve_context
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ask, failed, ok

EVERY = pytest.mark.parametrize("policy", POLICIES)


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


def conversation_of(project: Project, steps: int) -> Session:
    """A session with an input before each step."""
    session = create_session(project)
    append(project, session.pk, [d for n in range(steps) for d in (ask(f"and {n}?"), act("ls", at=n), ok())])
    return Session.objects.get(pk=session.pk)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the entries that the block reads."""
    positions: list[int] = []
    given = sql._entry

    def noted(row: Any, keys: tuple[str, ...]) -> core.Entry:
        positions.append(row[0])
        return given(row, keys)

    monkeypatch.setattr(sql, "_entry", noted)
    return positions


@pytest.fixture(scope="module")
def conversations(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[list[Session]]:
    """A short and a long session, with summaries. Created once for all policies."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Bob's")
        made = []
        for steps in (194, 962):  # alike in how far back outlines begin, and in their numbers' widths
            session = conversation_of(project, steps)
            for first in range(steps - 90, steps - 8, 3):
                add_summary(project, session.pk, (first, first + 2), SummaryText(f"listed {first}"))
            made.append(session)
        yield made
        transaction.set_rollback(True)


@EVERY
def test_a_context_of_a_long_session_reads_no_more_than_that_of_a_short_one(
    conversations: list[Session], db: None, read: list[int], policy: str
) -> None:
    costs = []
    for session in conversations:
        serve_context(session, RequestedContext(policy=policy, max_tokens=600))
        read.clear()
        with CaptureQueriesContext(connection) as queries:
            serve_context(session, RequestedContext(policy=policy, max_tokens=600))
        costs.append((len(queries), len(read)))
    assert costs[0][0] == costs[1][0]
    assert costs[1][1] <= costs[0][1] * 1.5


def test_steps_are_read_in_growing_batches(project: Project) -> None:
    session = conversation_of(project, 60)
    with CaptureQueriesContext(connection) as queries:
        steps = [episode.number for episode in History(session).episodes_newest_first()]
    assert steps == list(range(60, 0, -1))
    assert len(queries) == 4 * 3
    assert [e.number for e in History(session).episodes_newest_first(40, 25)] == list(range(40, 24, -1))


def test_few_large_steps_are_held_in_memory_at_once(
    project: Project, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_groups, "READ_TOKENS", 500)
    session = create_session(project)
    append(project, session.pk, [d for n in range(8) for d in (act(), ok(None, "word " * (100 * n)))])
    stream = History(Session.objects.get(pk=session.pk)).episodes_newest_first()
    assert [episode.number for episode in islice(stream, 1)] == [8]
    assert read == [15, 16]
    assert [episode.number for episode in stream] == [7, 6, 5, 4, 3, 2, 1]


def test_all_live_inputs_are_read_newest_first(project: Project) -> None:
    session = conversation_of(project, 40)
    rewind(project, session.pk, Target(to_step=30))
    child = fork(project, session.pk)
    append(project, child.pk, [ask("and in the fork?")])
    listed = [aside.content for aside in History(Session.objects.get(pk=child.pk)).inputs_newest_first()]
    assert listed == ["and in the fork?", *(f"and {n}?" for n in range(29, -1, -1))]
    first = History(session).first_input
    assert first is not None
    assert first.position == 1


def test_summaries_are_read_by_their_ends_latest_and_highest_first(project: Project) -> None:
    session = conversation_of(project, 40)
    for steps in [(3, 4), (4, 4), (1, 2), (30, 40)]:
        add_summary(project, session.pk, steps, SummaryText(f"{steps}"))
    rewind(project, session.pk, Target(to_step=20))
    past = History(Session.objects.get(pk=session.pk))
    listed = [(s.first_step, s.last_step) for s in past.summaries_newest_first(past.lineage.last + 1)]
    assert listed == [(3, 4), (4, 4), (1, 2)]
    assert [s.last_step for s in past.summaries_newest_first(past.row(4).last_position)] == [2]
    assert list(History(Session.objects.get(pk=session.pk), 119).summaries_newest_first(100)) == []


def test_a_summary_that_is_added_meanwhile_hides_and_repeats_no_other_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "_FIRST_PAGE", 2)
    session = conversation_of(project, 8)
    for step in range(1, 8):
        add_summary(project, session.pk, (step, step), SummaryText(f"{step}"))
    add_summary(project, session.pk, (3, 4), SummaryText("3 and 4"))
    listed = Summary.objects.newest_first(History(session).lineage, session.head + 1)
    steps = [next(listed).last_step]
    for step in (8, 7, 5, 1):
        add_summary(project, session.pk, (step, step), SummaryText("added"))
    steps += [summary.last_step for summary in listed]
    assert steps == [7, 6, 5, 5, 4, 4, 3, 2, 1, 1]


def test_contexts_read_the_same_summaries_as_the_orm(project: Project) -> None:
    session = conversation_of(project, 40)
    for steps in [(3, 4), (4, 4), (1, 2), (30, 30)]:
        add_summary(project, session.pk, steps, SummaryText(f"ähm\0 {steps}", key_points=("a", "b")))
    child = fork(project, session.pk, at_step=20)
    add_summary(project, child.pk, (5, 5), SummaryText("of the fork"))
    past = History(Session.objects.get(pk=child.pk))
    end = past.lineage.last
    read = [list(past.summaries_newest_first(end + 1)), past.summaries()]
    without_texts = [row._replace(text="", key_points=[]) for row in read[0]]
    assert list(Summary.objects.newest_first(past.lineage, end + 1, past.session)) == without_texts
    live = Summary.objects.live(past.session, past.lineage, (1, end))
    newest_first = sorted(live, key=lambda one: (one.last_position, one.level, one.pk), reverse=True)
    for rows, models in zip(read, (newest_first, live), strict=True):
        assert len(rows) == 4
        for row, model in zip(rows, models, strict=True):
            assert row == SummaryRow(
                str(model.pk), *(getattr(model, name) for name in SummaryRow._fields[1:])
            )


def test_a_context_makes_no_models_of_summaries(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    session = conversation_of(project, 60)
    for number in range(1, 50):
        add_summary(project, session.pk, (number, number), SummaryText(f"found {number}"))
    monkeypatch.setattr(Summary, "from_db", lambda *_: pytest.fail("a model of a summary"))
    session.refresh_from_db()
    served = [
        serve_context(session, RequestedContext(policy=policy, max_tokens=3_000)) for policy in POLICIES
    ]
    shown = {one.built.manifest.policy: one.built.manifest.segments for one in served}
    assert sum(segment.form == "summarised" for segment in shown["sliding_window"]) == 49


def test_sql_reads_the_same_as_the_orm(project: Project) -> None:
    session = conversation_of(project, 30)
    rewind(project, session.pk, Target(to_step=20))
    child = fork(project, session.pk)
    append(project, child.pk, [act("ls", at="ü"), ask("ähm\0"), failed()])
    lineage = Session.objects.get(pk=child.pk).lineage()
    for kinds in (["model_input"], ["model_output"], ["model_output", "tool_results"]):
        for after, before in ((0, None), (3, 40), (61, 90), (95, None)):
            expected = Entry.objects.live(lineage, after=after, before=before, kinds=kinds)
            entries = list(sql.live_entries(lineage, kinds, after=after, before=before))
            assert entries == [entry.core() for entry in expected]
    inputs = [entry.core() for entry in Entry.objects.live(lineage, kinds=["model_input"])]
    assert list(sql.newest_first(lineage, "model_input")) == inputs[::-1]
    ends = [sql.newest_or_oldest(lineage, "model_input", newest=newest) for newest in (False, True)]
    assert ends == [inputs[0], inputs[-1]]
    assert sql.newest_or_oldest(lineage, "memory_notebook", newest=True) is None
    rows = Episode.objects.filter(session_id__in=[session.pk, child.pk], number__range=(18, 21))
    expected_places = set(rows.values_list(*sql.OutlineRow._fields))
    assert set(sql.outline_rows([str(session.pk), str(child.pk)], 18, 21)) == expected_places


def test_steps_are_read_without_metadata(project: Project) -> None:
    """A step needs none, and it may be long."""
    session = create_session(project)
    metadata: dict[str, Any] = {"model": "big", "usage": {"input_tokens": 7}, "j": [[]] * 1000}
    append(project, session.pk, [act("ls")._replace(metadata=metadata), ok()])
    session.refresh_from_db()
    left = bytes_left.set(12_000)
    try:
        assert len(History(session).episodes(1, 1)) == 1
        bytes_left.set(12_000)
        assert len(History(session).outline(1, 1)) == 1
        bytes_left.set(12_000)
        (output, _) = sql.live_entries(session.lineage(), core.STEP_KINDS)
        assert output.metadata == {"model": "big", "usage": {"input_tokens": 7}}
    finally:
        bytes_left.reset(left)


def test_a_context_is_made_from_a_limited_number_of_bytes(project: Project) -> None:
    session = conversation_of(project, 20)
    left = bytes_left.set(8000)
    try:
        with pytest.raises(Invalid, match="fewer steps"):
            History(session).episodes(1, 20)
        bytes_left.set(8000)
        assert len(History(session).episodes(19, 20)) == 2
        bytes_left.set(8000)
        with pytest.raises(Invalid, match="smaller budget"):
            serve_context(session, RequestedContext("live", max_tokens=None))
    finally:
        bytes_left.reset(left)
    assert len(History(session).episodes(1, 20)) == 20


def test_few_texts_are_read_for_a_context_that_takes_few_summaries(
    project: Project, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    session = conversation_of(project, 40)
    for step in range(1, 41):
        add_summary(project, session.pk, (step, step), SummaryText(f"{step}"))
    monkeypatch.setattr(entries, "_FIRST_PAGE", 40)
    monkeypatch.setattr(summary_texts, "FIRST_PART", 3)
    listed = History(session).summaries_newest_first(session.head + 1)
    bytes_left.set(10_000)
    read = [next(listed).text for _ in range(3)]
    three = 10_000 - (bytes_left.get() or 0)
    read += [summary.text for summary in listed]
    assert read == [str(step) for step in range(40, 0, -1)]
    assert 10_000 - (bytes_left.get() or 0) > 10 * three > 0
    bytes_left.set(None)
