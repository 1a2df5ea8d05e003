"""A bulk compression starts what was accepted with the request, whatever changes before it starts."""

from typing import Any
from uuid import UUID

import pytest

from historyapp import bulk_workers
from historyapp.models import BulkItem, CompressionRun, Project
from historyapp.services.compression.items import plan
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.api.test_bulk_actions import with_steps

MODEL = "openai:gpt-5-mini"


@pytest.fixture(autouse=True)
def _a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")


@pytest.fixture
def writer(project: Project) -> Agent:
    """A key that may write and not spend."""
    return Agent(key_for(project, "writer", ("read", "write")))


def recorded(alice: Agent, strategy: str, steps: int = 12, **settings: Any) -> str:
    """A session with this strategy. The newest four steps are not compressed."""
    session = str(alice.post("/sessions")["id"])
    alice.patch(f"/sessions/{session}", {"settings": {"compression_strategy": strategy, **settings}})
    with_steps(alice, session, steps)
    return session


def accept(alice: Agent, session: str, **choice: Any) -> UUID:
    """Starts a bulk compression whose estimate is accepted, and returns its id. No worker works on it yet."""
    body = {"sessions": [session], **choice}
    money = alice.post("/bulk-actions/estimate", body)["money"]
    cost = {"max_cost": money} if money else {}
    started = alice.post("/bulk-actions", {"action": "compress", **body, **cost})
    assert started.status == 202, started.body
    return UUID(started["id"])


def test_a_free_compression_stays_free_when_the_strategy_changes(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "simple_extract")
    accept(alice, session)
    changed = writer.patch(f"/sessions/{session}", {"settings": {"compression_strategy": "episode_summary"}})
    assert changed.status == 200, changed.body
    bulk_workers.work_on_bulk_actions()
    run = CompressionRun.objects.get()
    assert (run.strategy, run.model, run.state) == ("simple_extract", "", "queued")


def test_a_local_compression_calls_no_model_when_a_provider_gets_a_key(
    alice: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    session = recorded(alice, "ai_summary")
    accept(alice, session)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    bulk_workers.work_on_bulk_actions()
    assert CompressionRun.objects.get().model == "local"


def test_steps_that_are_added_later_are_not_compressed(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary")
    accept(alice, session, model=MODEL)
    with_steps(writer, session, 20)
    bulk_workers.work_on_bulk_actions()
    run = CompressionRun.objects.get()
    assert (run.model, run.from_step, run.to_step) == (MODEL, 1, 8)


def test_a_session_without_old_steps_stays_uncompressed(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary", 4)
    action = accept(alice, session, model=MODEL)
    with_steps(writer, session, 20)
    bulk_workers.work_on_bulk_actions()
    (item,) = alice.get(f"/bulk-actions/{action}")["items"]
    assert item["state"] == "unchanged"
    assert "when the action was requested" in item["reason"]
    assert not CompressionRun.objects.exists()


def test_longer_steps_with_the_same_numbers_are_not_paid_for(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary")
    action = accept(alice, session, model=MODEL)
    writer.post(f"/sessions/{session}/rewinds", {"to_position": 1})
    output: dict[str, Any] = {
        "kind": "model_output",
        "use_tool": {"name": "ls"},
        "text": "a long thought " * 500,
    }
    result: dict[str, Any] = {"kind": "tool_results", "results": [{"status": "success", "outputs": "fine"}]}
    writer.within(f"/sessions/{session}").append(*[output, result] * 12)
    bulk_workers.work_on_bulk_actions()
    (item,) = alice.get(f"/bulk-actions/{action}")["items"]
    assert item["state"] == "failed"
    assert "would now cost up to" in item["reason"]
    assert not CompressionRun.objects.exists()


def test_smaller_batches_are_not_paid_for(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary", compression_batch_size=4)
    action = accept(alice, session, model=MODEL)
    smaller = {"settings": {"compression_strategy": "ai_summary", "compression_batch_size": 1}}
    assert writer.patch(f"/sessions/{session}", smaller).status == 200
    bulk_workers.work_on_bulk_actions()
    (item,) = alice.get(f"/bulk-actions/{action}")["items"]
    assert (item["state"], CompressionRun.objects.count()) == ("failed", 0)


def test_a_run_keeps_the_size_of_its_batches(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary", compression_batch_size=4)
    accept(alice, session, model=MODEL)
    bulk_workers.work_on_bulk_actions()
    smaller = {"settings": {"compression_strategy": "ai_summary", "compression_batch_size": 1}}
    assert writer.patch(f"/sessions/{session}", smaller).status == 200
    run = CompressionRun.objects.get()
    plan(run.pk)
    assert run.items.count() == 2


def test_a_session_that_was_refused_stays_refused(alice: Agent, writer: Agent) -> None:
    session = recorded(alice, "ai_summary")
    writer.patch(f"/sessions/{session}", {"status": "archived"})
    action = accept(alice, session, model=MODEL)
    writer.patch(f"/sessions/{session}", {"status": "finished"})
    bulk_workers.work_on_bulk_actions()
    (item,) = alice.get(f"/bulk-actions/{action}")["items"]
    assert item["state"] == "failed"
    assert "archived" in item["reason"]
    assert not CompressionRun.objects.exists()


def test_an_action_of_an_earlier_version_starts_nothing(alice: Agent) -> None:
    session = recorded(alice, "ai_summary")
    action = accept(alice, session, model=MODEL)
    BulkItem.objects.update(accepted_step=None)
    bulk_workers.work_on_bulk_actions()
    (item,) = alice.get(f"/bulk-actions/{action}")["items"]
    assert item["state"] == "failed"
    assert "Start it again" in item["reason"]
    assert not CompressionRun.objects.exists()
