"""Reads of whole sessions take memory for a few entries, however many there are and however long."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.entries import DebugLog, ModelOutput, ToolCall
from historyapp.core.evaluation.figures import Choice
from historyapp.core.exporters import EXPORTERS, html_replay, long_steps
from historyapp.core.origins import VERSION
from historyapp.models import NameIndex, Project, Session, StaleOutcomes, long_rows
from historyapp.models.history import History
from historyapp.services import outcomes
from historyapp.services.append import append
from historyapp.services.evaluations.measuring import SessionEvaluation, read_session
from historyapp.services.exports import export_session
from historyapp.services.figures.run_figures import count_run
from historyapp.services.names import index
from historyapp.services.outcomes import compute_outcomes
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from historyapp.services.subagents import link_subagents
from tests.examples import thorough
from tests.services.drafts import act, ask, draft, ok

SIZE = 1 << 16
ENTRIES = 24
LETTERS = (b"0123456789abcdef ghijklmnopqrstuvwxyz " * 7)[:256]
MOST = 14
"""Times :data:`SIZE`. A dozen copies of one text may exist while it is read, checked and written."""


@cache
def noise(number: int) -> str:
    """A text that hardly gets smaller when it is compressed."""
    return random.Random(number).randbytes(SIZE).translate(LETTERS).decode()


@pytest.fixture(autouse=True)
def _fetch_little(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (long_rows, outcomes, index):
        monkeypatch.setattr(module, "AT_ONCE", SIZE)
    monkeypatch.setattr(long_steps, "MAX_STEP", 3 * SIZE)
    monkeypatch.setattr(html_replay, "MAX_HEAD", 1000)


def peak_of(read: Callable[[], object]) -> float:
    """The maximum of the memory that a function takes, in texts of :data:`SIZE`."""
    read()  # loads what is loaded once in a process
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1] / SIZE
    finally:
        tracemalloc.stop()


def export(session: Session, format: str) -> int:
    return sum(map(len, export_session(session, format).chunks))


def steps(session: Session) -> None:
    """Long outputs with long messages of a provider, which count no tokens."""
    for number in range(ENTRIES):
        output = ModelOutput(text="done", raw_message={"x": noise(number)})
        append(session.project, session.pk, [draft(output)])


def inputs(session: Session) -> None:
    for number in range(ENTRIES):
        append(session.project, session.pk, [ask(noise(number))])


def metadata(session: Session) -> None:
    """Steps and results with long metadata, which counts no tokens."""
    for number in range(ENTRIES // 2):
        output, result = draft(ModelOutput(text="done")), ok("t")
        long = {"x": noise(number)}
        append(session.project, session.pk, [entry._replace(metadata=long) for entry in (output, result)])


def logs(session: Session) -> None:
    """One step with long log entries."""
    append(session.project, session.pk, [draft(ModelOutput(text="done"))])
    for number in range(ENTRIES):
        append(session.project, session.pk, [draft(DebugLog(category="x", message=noise(number)))])


def one_step(session: Session) -> None:
    """One step that started a sub-agent, with long results that came late."""
    started = ToolCall(id="t", name="Task", arguments={"prompt": "look"})
    append(session.project, session.pk, [draft(ModelOutput(tool_calls=(started,)))])
    for number in range(ENTRIES):
        append(session.project, session.pk, [ok("t", noise(number))])


Recorded = Callable[[Callable[[Session], None]], Session]
"""Finds the session that a function has recorded."""


@pytest.fixture(scope="module")
def ids(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, UUID]]:
    """Sessions for all tests: recording one takes longer than a test. Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        project, ids = Project.objects.create(name="ours"), dict[str, UUID]()
        for record in (steps, inputs, metadata, logs, one_step):
            session = create_session(project)
            record(session)
            ids[record.__name__] = session.pk
        yield ids
        transaction.set_rollback(True)


@pytest.fixture
def recorded(ids: dict[str, UUID], db: None) -> Recorded:
    return lambda record: Session.objects.select_related("project").get(pk=ids[record.__name__])


@pytest.mark.parametrize("format", EXPORTERS)
@pytest.mark.parametrize("record", [steps, one_step, thorough(inputs)])
def test_an_export_takes_memory_for_a_few_entries(
    record: Callable[[Session], None], format: str, recorded: Recorded
) -> None:
    session = recorded(record)
    assert peak_of(lambda: export(session, format)) < MOST


@pytest.mark.parametrize("record", [steps, inputs, one_step, metadata, logs])
def test_the_figures_of_a_run_take_memory_for_a_few_entries(
    record: Callable[[Session], None], recorded: Recorded
) -> None:
    session = recorded(record)
    assert peak_of(lambda: count_run(History(session))) < MOST


def test_a_rebuild_takes_memory_for_a_few_entries(recorded: Recorded) -> None:
    session = recorded(steps)
    assert peak_of(lambda: rebuild(session)) < MOST


def test_a_chunk_of_the_index_of_names_has_few_bytes(recorded: Recorded) -> None:
    session = recorded(steps)
    names = NameIndex(session=session, position=0, unread=0, version=VERSION)
    assert peak_of(lambda: index.ChunkReader(session, 0).next_chunk(names)) < MOST


def test_a_transaction_that_computes_outcomes_reads_few_bytes(recorded: Recorded) -> None:
    session = recorded(steps)

    def compute() -> None:
        StaleOutcomes.objects.create(session=session)
        assert compute_outcomes(lambda: False) == 1

    assert peak_of(compute) < MOST


def test_an_evaluation_takes_memory_for_a_few_entries(recorded: Recorded) -> None:
    session = recorded(steps)
    assert peak_of(lambda: read_session(History(session), lambda: None)) < MOST


def test_an_evaluation_keeps_no_contexts(project: Project) -> None:
    """Each context has one message of the whole history before its step."""
    session, emoji = create_session(project), "\U0001f600"
    drafts = [ask("work on src/alpha.py")]
    for number in range(16):  # the measured contexts take 12 times SIZE
        spaces = " " * (SIZE // 80)
        drafts += [act("read", path="src/alpha.py"), ok(outputs=f"{emoji}{spaces}{number}")]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    evaluation = SessionEvaluation(session, session.head, [Choice("episodic", 1_900_000)])
    first, *others = evaluation.steps
    evaluation.measure(first)  # loads what is loaded once
    tracemalloc.start()
    try:
        for step in others:
            evaluation.measure(step)
        assert tracemalloc.get_traced_memory()[0] < 2 * SIZE
    finally:
        tracemalloc.stop()
    assert len(others) > 8


def test_the_calls_of_sub_agents_are_read_one_at_a_time(recorded: Recorded) -> None:
    session = recorded(one_step)
    child = create_session(session.project, metadata={"agent_id": "an-agent"})

    def link() -> None:
        Session.objects.filter(pk=child.pk).update(spawned_by=session, spawned_position=None)
        link_subagents([child.pk])

    assert peak_of(link) < MOST


def test_a_rewind_into_a_long_step_takes_memory_for_a_few_results(recorded: Recorded) -> None:
    session, positions = recorded(one_step), iter(range(ENTRIES, 1, -1))
    peak = peak_of(lambda: rewind(session.project, session.pk, Target(to_position=next(positions))))
    assert peak < MOST
