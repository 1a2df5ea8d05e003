"""``playhead compress``: does the work itself if no worker is running, and prints totals."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from historyapp.api.actions import StepIn, step_bodies
from historyapp.core.entries import EntryDraft
from historyapp.core.errors import Invalid
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionRun, Project, Summary
from historyapp.running_servers import announced
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.compression.run import process_run
from historyapp.services.sessions import create_session
from historyapp.services.summary_writers.writers import WRITER, InlineWriter
from historyapp.services.transactions import gives_way
from historyapp.services.workers import record_worker
from tests.commands.conftest import Run

STEP = StepIn(analysis_result="find it", execution_result="changed a.py", supervision_result="fine")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", autouse=True)
def _light_writer(lighter: None) -> Iterator[None]:
    WRITER.stop()
    yield
    WRITER.stop()


@pytest.fixture
def six(transactional_db: None) -> UUID:
    """A session of six steps."""
    project = default_project()
    session = create_session(project)
    append(project, session.pk, [EntryDraft(body) for _ in range(6) for body in step_bodies(STEP)])
    return session.pk


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    runs: list[UUID] = []
    monkeypatch.setattr("historyapp.management.commands.compress.wake", runs.append)
    return runs


def test_without_a_worker_the_command_does_the_work(run: Run, six: UUID, woken: list[UUID]) -> None:
    ran = run("compress", six, "--strategy", "simple_extract")
    assert ran.error == ""
    first, second, *_ = ran.out.splitlines()
    assert first == "steps 1 to 2 by simple_extract."
    made = CompressionRun.objects.get()
    assert second == (f"2 summaries: {made.tokens_before} tokens of steps became {made.tokens_after}.")
    assert (made.state, made.actor) == ("succeeded", "command line")
    assert Summary.objects.count() == 2
    assert woken == []


@pytest.mark.parametrize("is_running", [True, False])
def test_the_work_gives_a_running_server_its_turn(
    run: Run, six: UUID, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_running: bool
) -> None:
    """Writers of other processes only poll for SQLite's lock."""
    settings.PLAYHEAD_HOME = tmp_path
    seen: list[bool] = []

    def process(*arguments: Any) -> None:
        seen.append(gives_way.get())
        process_run(*arguments)

    monkeypatch.setattr("historyapp.management.commands.compress.process_run", process)
    with announced(tmp_path, "http://localhost:8000") if is_running else nullcontext():
        assert run("compress", six, "--strategy", "simple_extract").error == ""
    assert (set(seen), gives_way.get()) == ({is_running}, False)


def test_with_a_worker_the_command_leaves_the_work_to_it(run: Run, six: UUID, woken: list[UUID]) -> None:
    record_worker(uuid7())
    ran = run("compress", six, "--strategy", "simple_extract")
    assert "Workers do this as run " in ran.out
    assert woken == [CompressionRun.objects.get().pk]
    assert not Summary.objects.exists()
    joined = run("compress", six, "--wait")
    assert joined.out.startswith("Already running: steps 1 to 2 by simple_extract.")
    assert Summary.objects.count() == 2


def test_no_wait_leaves_the_work_even_without_a_worker(run: Run, six: UUID, woken: list[UUID]) -> None:
    run("compress", six, "--strategy", "simple_extract", "--no-wait")
    assert len(woken) == 1
    assert not Summary.objects.exists()


def test_steps_and_their_repetition_can_be_chosen(run: Run, six: UUID) -> None:
    chosen = ("compress", six, "--strategy", "structured", "--from", -2, "--to", -1)
    assert run(*chosen).out.startswith("steps 5 to 6 by structured.\n1 summary: ")
    assert "every step already has a summary" in run(*chosen).out
    assert "1 summary: " in run(*chosen, "--again").out


def test_a_failure_is_reported_in_one_sentence(run: Run, six: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise Invalid("The key is wrong.")

    refusing = replace(STRATEGIES["simple_extract"], write=refuse)
    monkeypatch.setitem(STRATEGIES, "simple_extract", refusing)
    monkeypatch.setattr("historyapp.management.commands.compress.WRITER", InlineWriter())
    ran = run("compress", six, "--strategy", "simple_extract")
    assert "Nothing could be summarised: The key is wrong." in ran.error


def test_an_empty_session_is_not_an_error(run: Run, transactional_db: None) -> None:
    session = create_session(default_project())
    ran = run("compress", session.pk)
    assert ran.error == ""
    assert "the session has no steps yet" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--strategy", "magic"), "There is no strategy `magic`"),
        (("--from", 9), "There is no step 9"),
        (("--strategy", "simple_extract", "--model", "gpt-5"), "uses no model"),
    ],
)
def test_an_invalid_request_is_reported(
    run: Run, six: UUID, arguments: tuple[object, ...], words: str
) -> None:
    assert words in run("compress", six, *arguments).error


def test_only_a_session_of_the_project_is_compressed(run: Run, six: UUID) -> None:
    Project.objects.create(name="other")
    assert "There is no session" in run("compress", six, "--project", "other").error
    assert "is not the id of a session" in run("compress", "mine").error


def test_a_session_is_named_by_the_beginning_of_its_id_or_as_the_last_one(run: Run, six: UUID) -> None:
    assert "steps 1 to 2" in run("compress", str(six)[:8], "--to", 2, "--strategy", "simple_extract").out
    assert "steps 3 to 4" in run("compress", "last", "--from", 3, "--to", 4).out
    assert "No session begins with 0000" in run("compress", "0000").error
    create_session(default_project(), id=UUID(f"{str(six)[:-4]}0000"))
    assert f"Several sessions begin with {str(six)[:8]}" in run("compress", str(six)[:8]).error
