"""Reads of whole sessions take memory for a few entries, however many there are and however long."""

import random
import tracemalloc
from collections.abc import Callable
from functools import cache

import pytest

from historyapp.core.entries import DebugLog, ModelOutput, ToolCall
from historyapp.core.exporters import EXPORTERS, html_replay, long_steps
from historyapp.core.origins import VERSION
from historyapp.models import NameIndex, Project, Session, StaleOutcomes, long_rows
from historyapp.models.history import History
from historyapp.services import outcomes
from historyapp.services.append import append
from historyapp.services.evaluations.measuring import read_session
from historyapp.services.exports import export_session
from historyapp.services.figures.run_figures import count_run
from historyapp.services.names import index
from historyapp.services.outcomes import compute_outcomes
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from historyapp.services.subagents import link_subagents
from tests.services.drafts import ask, draft, ok

SIZE = 1 << 18
ENTRIES = 24
MOST = 14
"""Times :data:`SIZE`. A dozen copies of one text may exist while it is read, checked and written."""


@cache
def noise(number: int) -> str:
    """A text that hardly gets smaller when it is compressed."""
    letters = random.Random(number).choices("0123456789abcdef ghijklmnopqrstuvwxyz ", k=SIZE)
    return "".join(letters)


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


@pytest.fixture
def steps(project: Project) -> Session:
    """Long outputs with long messages of a provider, which count no tokens."""
    session = create_session(project)
    for number in range(ENTRIES):
        append(project, session.pk, [draft(ModelOutput(text="done", raw_message={"x": noise(number)}))])
    return Session.objects.get(pk=session.pk)


@pytest.fixture
def inputs(project: Project) -> Session:
    session = create_session(project)
    for number in range(ENTRIES):
        append(project, session.pk, [ask(noise(number))])
    return Session.objects.get(pk=session.pk)


@pytest.fixture
def metadata(project: Project) -> Session:
    """Steps and results with long metadata, which counts no tokens."""
    session = create_session(project)
    for number in range(ENTRIES // 2):
        output, result = draft(ModelOutput(text="done")), ok("t")
        long = {"x": noise(number)}
        append(project, session.pk, [entry._replace(metadata=long) for entry in (output, result)])
    return Session.objects.get(pk=session.pk)


@pytest.fixture
def logs(project: Project) -> Session:
    """One step with long log entries."""
    session = create_session(project)
    append(project, session.pk, [draft(ModelOutput(text="done"))])
    for number in range(ENTRIES):
        append(project, session.pk, [draft(DebugLog(category="x", message=noise(number)))])
    return Session.objects.get(pk=session.pk)


@pytest.fixture
def one_step(project: Project) -> Session:
    """One step that started a sub-agent, with long results that came late."""
    session = create_session(project)
    started = ToolCall(id="t", name="Task", arguments={"prompt": "look"})
    append(project, session.pk, [draft(ModelOutput(tool_calls=(started,)))])
    for number in range(ENTRIES):
        append(project, session.pk, [ok("t", noise(number))])
    return Session.objects.get(pk=session.pk)


@pytest.mark.parametrize("format", EXPORTERS)
@pytest.mark.parametrize("recorded", ["steps", "inputs", "one_step"])
def test_an_export_takes_memory_for_a_few_entries(
    recorded: str, format: str, request: pytest.FixtureRequest
) -> None:
    session = request.getfixturevalue(recorded)
    assert peak_of(lambda: export(session, format)) < MOST


@pytest.mark.parametrize("recorded", ["steps", "inputs", "one_step", "metadata", "logs"])
def test_the_figures_of_a_run_take_memory_for_a_few_entries(
    recorded: str, request: pytest.FixtureRequest
) -> None:
    session = request.getfixturevalue(recorded)
    assert peak_of(lambda: count_run(History(session))) < MOST


def test_a_rebuild_takes_memory_for_a_few_entries(steps: Session) -> None:
    assert peak_of(lambda: rebuild(steps)) < MOST


def test_a_chunk_of_the_index_of_names_has_few_bytes(steps: Session) -> None:
    names = NameIndex(session=steps, position=0, unread=0, version=VERSION)
    assert peak_of(lambda: index.read_chunk(steps, names)) < MOST


def test_a_transaction_that_computes_outcomes_reads_few_bytes(steps: Session) -> None:
    def compute() -> None:
        StaleOutcomes.objects.create(session=steps)
        assert compute_outcomes(lambda: False) == 1

    assert peak_of(compute) < MOST


def test_an_evaluation_takes_memory_for_a_few_entries(steps: Session) -> None:
    assert peak_of(lambda: read_session(History(steps), lambda: None)) < MOST


def test_the_calls_of_sub_agents_are_read_one_at_a_time(one_step: Session, project: Project) -> None:
    child = create_session(project, metadata={"agent_id": "an-agent"})

    def link() -> None:
        Session.objects.filter(pk=child.pk).update(spawned_by=one_step, spawned_position=None)
        link_subagents([child.pk])

    assert peak_of(link) < MOST


def test_a_rewind_into_a_long_step_takes_memory_for_a_few_results(
    one_step: Session, project: Project
) -> None:
    positions = iter(range(ENTRIES, 1, -1))
    assert peak_of(lambda: rewind(project, one_step.pk, Target(to_position=next(positions)))) < MOST
