"""A key reads its project; only one with the scope admin changes what it allows."""

import pytest

from historyapp.models import AuditRecord, Project
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem


@pytest.fixture
def recorder(project: Project) -> Agent:
    """A key that agents have by default."""
    return Agent(key_for(project, "recorder", ("read", "write")))


def test_a_key_reads_its_own_project(alice: Agent, charlie: Agent, project: Project) -> None:
    response = alice.get("/project")
    assert (response["id"], response["name"]) == (str(project.pk), "Alice's")
    assert response["paid_automatic_compression"] is False
    assert charlie.get("/project")["name"] == "Charlie's"


def test_a_key_with_admin_changes_the_project_and_the_change_is_audited(
    alice: Agent, project: Project
) -> None:
    assert alice.patch("/project", {"paid_automatic_compression": True})["paid_automatic_compression"] is True
    project.refresh_from_db()
    assert project.paid_automatic_compression
    record = AuditRecord.objects.get(project=project, action="change project")
    assert record.detail == {"paid_automatic_compression": True}
    assert record.actor.startswith("key:")


def test_a_change_without_effect_is_not_audited(alice: Agent, project: Project) -> None:
    assert alice.patch("/project", {}).status == 200
    assert alice.patch("/project", {"paid_automatic_compression": False}).status == 200
    assert not AuditRecord.objects.filter(project=project, action="change project").exists()


def test_an_agents_key_cannot_turn_spending_on(recorder: Agent, project: Project) -> None:
    refused = recorder.patch("/project", {"paid_automatic_compression": True})
    assert_problem(refused, 403, "scope `admin`")
    assert refused["scope"] == "admin"
    project.refresh_from_db()
    assert not project.paid_automatic_compression


def test_a_key_with_admin_sets_and_removes_the_summary_instruction(alice: Agent) -> None:
    assert alice.get("/project")["summary_instruction"] is None
    changed = alice.patch("/project", {"summary_instruction": " Keep paths.\r\n"})
    assert changed["summary_instruction"] == "Keep paths."
    assert alice.patch("/project", {"summary_instruction": None})["summary_instruction"] is None


@pytest.mark.parametrize("wrong", ["", " \n", "x" * 2_001, "a\x00", "\u202a\x1b[31m", 5, ["x"]])
def test_a_summary_instruction_that_cannot_be_used_is_refused(alice: Agent, wrong: object) -> None:
    refused = alice.patch("/project", {"summary_instruction": wrong})
    assert_problem(refused, 422)
    assert refused["errors"][0]["loc"][:2] == ["body", "summary_instruction"]
    assert alice.get("/project")["summary_instruction"] is None
