"""Texts of summaries are read before the lock, a few at a time, and count as read by the request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.errors import Invalid
from historyapp.core.importers.base import AddSummary, Append
from historyapp.models import Project, Session, Summary, long_rows, open_queries, summaries
from historyapp.models.history import History
from historyapp.models.summaries import SummaryQuerySet, SummaryRow
from historyapp.services.compression import items as items_module
from historyapp.services.compression import store
from historyapp.services.compression.items import plan
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.exports import export_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.compression.conftest import Record
from tests.services.drafts import act, ok
from tests.services.scripts import Script, read

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)

LENGTH = 1000


def summarise(session: Session, number: int, step: int = 1) -> Summary:
    """A summary of a step with a long text."""
    text = SummaryText(f"{number:03} " + "x" * LENGTH, ("point",))
    return add_summary(session.project, session.pk, (step, step), text)


@contextmanager
def limit(bytes: int = 20 * LENGTH) -> Iterator[None]:
    token = long_rows.bytes_left.set(bytes)
    try:
        yield
    finally:
        long_rows.bytes_left.reset(token)


def test_of_many_summaries_of_a_step_only_the_newest_is_read(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "MANY_CHARACTERS", 5 * LENGTH)
    session = record(2)
    for number in range(40):
        summarise(session, number)
    summarise(session, 40, step=2)
    with limit():
        steps = History(session).episodes(1, 2)
    assert [str(step.summary)[:3] for step in steps] == ["039", "040"]
    rows = History(session).summaries()
    assert [(row.first_step, row.text[:3], row.key_points) for row in rows] == [
        (1, "039", ["point"]),
        (2, "040", ["point"]),
    ]


def test_of_many_summaries_those_that_existed_at_a_position_are_read(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = record(2)
    for number in range(10):
        summarise(session, number)
        if number == 4:
            Summary.objects.update(made_at=1)
    monkeypatch.setattr(summaries, "MANY_CHARACTERS", LENGTH)
    assert [row.text[:3] for row in History(session, session.head).summaries()] == ["009"]
    assert [row.text[:3] for row in History(session, session.head - 1).summaries()] == ["004"]


def test_a_query_that_begins_again_repeats_no_summary_after_one_was_added(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL it begins again after 16 MB, on SQLite whenever it was closed."""
    session = record(4)
    for step in (2, 3, 4):
        summarise(session, step, step)
    monkeypatch.setattr(open_queries, "MAX_READ", 1)
    monkeypatch.setattr(long_rows, "AT_ONCE", 1)
    read_row, added = summaries._row, list[Summary]()

    def add_meanwhile(row: tuple[object, ...]) -> tuple[SummaryRow, int]:
        if not added:
            added.append(summarise(session, 1, 1))
        return read_row(row)

    monkeypatch.setattr(summaries, "_row", add_meanwhile)
    rows = History(session).summaries()
    assert [row.first_step for row in rows if row.id != str(added[0].pk)] == [2, 3, 4]


def test_texts_of_summaries_count_as_read(record: Record) -> None:
    session = record(40)
    for number in range(1, 41):
        summarise(session, number, step=number)
    reads: list[Callable[[], object]] = [
        lambda: History(session).summaries(),
        lambda: list(History(session).summaries_newest_first(session.head + 1)),
        lambda: list(Summary.objects.all()),
    ]
    for read_all in reads:
        with limit(), pytest.raises(Invalid, match="summaries"):
            read_all()


@pytest.mark.parametrize("format", ["playhead_jsonl", "markdown"])
@pytest.mark.parametrize(
    ("name", "most", "queries"),
    [("READ_AT_ONCE", 2, 4), ("READ_CHARACTERS", 2.5 * LENGTH, 4), ("READ_CHARACTERS", 10, 7)],
)
def test_an_export_reads_a_few_summaries_at_a_time(
    record: Record, monkeypatch: pytest.MonkeyPatch, format: str, name: str, most: int, queries: int
) -> None:
    session = record(1)
    for number in range(7):
        summarise(session, number)
    monkeypatch.setattr(summaries, name, most)
    with CaptureQueriesContext(connection) as captured:
        text = "".join(export_session(session, format).chunks)
    assert [f"{number:03} xx" in text for number in range(7)] == [True] * 7
    assert len([query for query in captured if '"historyapp_summary"."text", ' in query["sql"]]) == queries


def forbid_in_transactions(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """Fails if the function is called in a transaction. Returns a list with an element for each call."""
    function, calls = getattr(owner, name), list[int]()

    def checked(*args: Any) -> Any:
        assert not connection.in_atomic_block
        calls.append(1)
        return function(*args)

    monkeypatch.setattr(owner, name, checked)
    return calls


def test_a_run_reads_steps_and_summaries_before_its_locks(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = record(6)
    session.settings = {"max_summary_length": 100}
    session.save()
    planned = forbid_in_transactions(monkeypatch, items_module, "_next_items")
    compared = forbid_in_transactions(monkeypatch, store, "_visible_summaries")
    run = start_run(project, session.pk, RunRequest("simple_extract", from_step=1, to_step=6)).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, bool(planned), bool(compared)) == ("succeeded", True, True)
    assert Summary.objects.filter(level__gte=3).exists()


def test_two_workers_that_plan_the_same_page_create_its_items_once(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(5).pk, RunRequest("simple_extract", from_step=1, to_step=5)).run
    read_items, raced = items_module._next_items, list[bool]()

    def plan_meanwhile(*args: Any) -> Any:
        items = read_items(*args)
        if not raced:
            raced.append(True)
            raced.append(plan(run.pk))
        return items

    monkeypatch.setattr(items_module, "_next_items", plan_meanwhile)
    assert plan(run.pk) is True
    run.refresh_from_db()
    assert (run.total, run.planned, raced) == (5, True, [True, True])
    assert list(run.items.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4, 5]


def test_a_digest_is_not_missed_if_another_worker_stores_the_last_item(
    project: Project, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = record(6)
    session.settings = {"max_summary_length": 100}
    session.save()
    read_summaries, missed = store._summaries_to_digest, list[int]()

    def too_early(run_id: Any) -> Any:
        if len(missed) < 2:
            missed.append(1)
            return None  # as if an item had been open
        return read_summaries(run_id)

    monkeypatch.setattr(store, "_summaries_to_digest", too_early)
    run = start_run(project, session.pk, RunRequest("simple_extract", from_step=1, to_step=6)).run
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, missed) == ("succeeded", [1, 1])
    assert Summary.objects.filter(level__gte=3).exists()


def test_an_import_compares_the_texts_of_stored_summaries_before_its_lock(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = [Append("s", act()), Append("s", ok()), Append("s", act()), Append("s", ok())]
    added = [AddSummary("s", 1, 2, "first"), AddSummary("s", 1, 2, "second"), AddSummary("s", 3, 4, "other")]
    read(project, script, *file, *added)
    read_texts, in_lock, before = SummaryQuerySet.read, list[Any](), list[Any]()

    def record_ids(rows: SummaryQuerySet, ids: Any) -> Any:
        texts = list(read_texts(rows, ids))
        (in_lock if connection.in_atomic_block else before).extend(texts)
        return iter(texts)

    monkeypatch.setattr(SummaryQuerySet, "read", record_ids)
    read(project, script, *file, *added[:2], AddSummary("s", 1, 2, "third"))
    assert [summary.text for summary in Summary.objects.order_by("id")] == [
        "first",
        "second",
        "other",
        "third",
    ]
    assert (len(before), in_lock) == (2, [])
