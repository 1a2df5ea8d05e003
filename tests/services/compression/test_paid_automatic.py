"""An agent that only records causes no paid model call, until the project turns such calls on."""

from importlib import import_module

import pytest
from django.apps import apps

from historyapp.llm import sdks
from historyapp.models import CompressionRun, Project, Session, Summary
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import compress_if_due, due_sessions, start_run
from historyapp.services.exports import export_session
from historyapp.services.imports.files import import_file
from historyapp.services.projects import change_project
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.core.importers.reading import source
from tests.llm.loopback import Loopback
from tests.services.compression.conftest import Compress, Record
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)
TURN_ON = {"paid_automatic_compression": True}


def record_and_work(project: Project, **settings: object) -> Session:
    """An agent records 12 steps; workers do all that is due."""
    session = create_session(project)
    change_session(project, session.pk, {"settings": settings})
    for number in range(12):
        append(project, session.pk, [act("read", path=f"{number}.py"), ok(outputs="a line\n" * 20)])
        while due := due_sessions():
            run = compress_if_due(due[0])
            if run is not None:
                process_run(run.pk)
    return session


def automatic_run(project: Project) -> CompressionRun:
    """A run that is due and that no worker has started."""
    session = create_session(project)
    for _ in range(8):
        append(project, session.pk, [act("read", path="a.py"), ok()])
    run = compress_if_due(session.pk)
    assert run is not None
    return run


@pytest.mark.parametrize(("vendor", "model"), [("OPENAI", "gpt-5-mini"), ("ANTHROPIC", "claude-haiku-4-5")])
def test_the_start_of_a_run_imports_no_sdk(
    project: Project, vendor: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import takes a second or more, and a run is started under the write lock."""
    monkeypatch.setenv(f"{vendor}_API_KEY", "sk-of-no-other-test")
    monkeypatch.setattr(sdks, "import_module", lambda package: pytest.fail(f"{package} is imported"))
    change_project(project, TURN_ON)
    session = create_session(project)
    change_session(
        project, session.pk, {"settings": {"llm_name": model, "compression_strategy": "ai_summary"}}
    )
    append(project, session.pk, [draft for _ in range(20) for draft in (act("read", path="a.py"), ok())])
    run = compress_if_due(session.pk)
    assert run is not None
    assert run.model.endswith(f":{model}")


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        ("gpt-5-mini", "episode_summary"),
        ("gpt-5.2", "ai_summary"),
        ("claude-opus-4-5", "ai_summary"),
        ("openai:qwen2.5:7b", "episode_summary"),
    ],
)
def test_an_agent_that_only_records_causes_no_model_call(
    project: Project, loopback: Loopback, model: str, strategy: str
) -> None:
    session = record_and_work(project, llm_name=model, compression_strategy=strategy)
    assert loopback.requests == []
    runs = CompressionRun.objects.filter(session=session)
    assert {(run.automatic, run.model, run.calls, run.cost) for run in runs} == {(True, "local", 0, 0)}
    assert all("has not turned on paid models" in run.note for run in runs)
    assert Summary.objects.filter(session=session).exists(), "the steps are summarised all the same"


def test_a_project_with_paid_compression_is_summarised_by_the_model(
    project: Project, loopback: Loopback
) -> None:
    change_project(project, TURN_ON)
    session = record_and_work(project)
    assert len(loopback.requests) == 8
    assert {run.model for run in CompressionRun.objects.filter(session=session)} == {"openai:gpt-5-mini"}


def test_turning_off_paid_compression_cancels_paid_automatic_runs(
    project: Project, loopback: Loopback
) -> None:
    change_project(project, TURN_ON)
    paid, other = automatic_run(project), automatic_run(Project.objects.create(name="other"))
    change_project(project, {"paid_automatic_compression": False}, actor="user:alice")
    paid.refresh_from_db()
    other.refresh_from_db()
    assert (paid.state, other.state) == ("cancelled", "queued")
    process_run(paid.pk)
    assert loopback.requests == []


def test_a_run_that_a_person_starts_still_uses_the_model(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    run = compress(record(6))
    assert (run.model, run.calls) == ("openai:gpt-5-mini", 2)


def test_paid_runs_that_an_earlier_version_started_continue_with_the_local_summariser(
    project: Project, record: Record, loopback: Loopback
) -> None:
    automatic = automatic_run(project)
    CompressionRun.objects.filter(pk=automatic.pk).update(model="openai:gpt-5-mini")
    asked_for = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini")).run
    migration = import_module("historyapp.migrations.0015_paid_automatic_compression")
    migration.use_the_local_summariser(apps, None)
    process_run(automatic.pk)
    assert loopback.requests == []
    automatic.refresh_from_db()
    asked_for.refresh_from_db()
    assert (automatic.state, automatic.model) == ("succeeded", "local")
    assert asked_for.model == "openai:gpt-5-mini"


@pytest.mark.parametrize("is_turned_on", [True, False])
def test_an_import_starts_no_paid_run_and_chooses_no_model(
    project: Project, loopback: Loopback, is_turned_on: bool
) -> None:
    """The owner may turn paid compression on after the import."""
    project = change_project(project, TURN_ON)
    session = record_and_work(project)
    sent = len(loopback.requests)
    session = change_session(project, session.pk, {"settings": {"llm_name": "gpt-5.2-pro"}})
    exported = "".join(export_session(session, "playhead_jsonl").chunks)
    other = Project.objects.create(name="other")
    if is_turned_on:
        other = change_project(other, TURN_ON)
    report = import_file(other, source(exported, "run.jsonl"))
    imported = Session.objects.get(project=other)
    assert imported.steps == 12
    assert "llm_name" not in imported.settings
    assert any("llm_name" in skipped.reason for skipped in report.skipped)
    assert due_sessions() == []
    assert len(loopback.requests) == sent


def test_a_fork_does_not_pay_again_for_what_is_summarised(project: Project, loopback: Loopback) -> None:
    project = change_project(project, TURN_ON)
    session = record_and_work(project)
    sent = len(loopback.requests)
    forked = fork(project, session.pk)
    append(project, forked.pk, [act("read", path="b.py"), ok()])
    assert (due_sessions(), len(loopback.requests)) == ([], sent)
