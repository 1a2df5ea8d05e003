"""``playhead caps`` sets and lists spending caps."""

import pytest

from historyapp.models import AuditRecord, SpendingCounter
from historyapp.services.bootstrap import default_project
from historyapp.services.keys import create_key
from historyapp.services.sessions import create_session
from tests.commands.conftest import Run


def test_caps_are_set_listed_and_removed(run: Run) -> None:
    project = default_project()
    session, (key, _) = create_session(project), create_key(project, "agent")
    assert "There are no spending caps." in run("caps", "list").out
    run("caps", "set", "--day", "5", "--month", "50")
    run("caps", "set", "--day=0.5", f"--session={session.pk}")
    out = run("caps", "set", "--month=2", f"--key={key.prefix}").out
    assert "project" in out
    assert "$5.00 a day" in out
    assert f"session {session.pk}" in out
    assert f"key {key.prefix}…" in out
    assert AuditRecord.objects.filter(action="change spending cap", actor="command line").count() == 4
    run("caps", "set", "--day", "none")
    assert SpendingCounter.objects.of_project(project.pk).capped().get().period == "month"


@pytest.mark.parametrize("dollars", ["-1", "nan", "inf", "much", "1e10", ""])
def test_an_invalid_amount_is_refused(run: Run, dollars: str) -> None:
    assert "neither an amount of US dollars nor none" in run("caps", "set", f"--day={dollars}").error


def test_a_missing_amount_and_unknown_subjects_are_refused_in_one_sentence(run: Run) -> None:
    assert "Give --day or --month" in run("caps", "set").error
    unknown = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c3d"
    assert "has no session" in run("caps", "set", "--day=1", f"--session={unknown}").error
    assert "No usable key" in run("caps", "set", "--day=1", "--key=ph_nobody").error
