"""``playhead rebuild-projections`` rebuilds everything but the log."""

from uuid import uuid4

import pytest

from historyapp.core.entries import (
    Body,
    EntryDraft,
    ModelInput,
    ModelOutput,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.projection import Totals
from historyapp.models import Episode, Session
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.commands.conftest import Run

STEP: tuple[Body, ...] = (
    ModelOutput(use_tool=UseTool(name="ls")),
    ToolResults(results=(ToolResult(status="success", outputs="a b"),)),
)


@pytest.fixture
def session(db: None) -> Session:
    """Three steps, the last one rewound, and a fork."""
    project = default_project()
    made = create_session(project, names={"title": "\x1b[2Jbooks"})
    append(project, made.pk, [EntryDraft(body) for body in (ModelInput(content="go"), *STEP, *STEP, *STEP)])
    rewind(project, made.pk, Target(episodes=1))
    fork(project, made.pk, at_step=1)
    made.refresh_from_db()
    return made


def test_a_sound_database_has_no_differences(run: Run, session: Session) -> None:
    assert run("rebuild_projections").out == "2 sessions with 8 entries read: no differences.\n"
    assert run("rebuild_projections", "--check").error == ""


def test_a_check_reports_differences_and_changes_nothing(run: Run, session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(steps=99)
    Episode.objects.filter(session=session, anchor=2).update(status="error", number=7)
    ran = run("rebuild_projections", "--check")
    fork = session.forks.get()
    assert ran.error == "2 sessions with 8 entries read: 2 sessions would change."
    assert ran.out.splitlines() == [
        f"{session.pk} \\x1b[2Jbooks",
        "    session differed in steps",
        "    step row 2 differed in number, status",
        f"{fork.pk} \\x1b[2Jbooks (fork)",
        "    cannot be checked before the session it was forked from is rebuilt",
    ]
    session.refresh_from_db()
    assert session.steps == 99


def test_rebuilding_repairs_differences(run: Run, session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(steps=99)
    Episode.objects.filter(session=session, anchor=4).delete()
    assert run("rebuild_projections").out.endswith("read: 1 session changed.\n")
    session.refresh_from_db()
    assert session.steps == 2
    assert run("rebuild_projections", "--check").error == ""


def test_entries_without_totals_by_model_are_reported_and_are_not_a_difference(
    run: Run, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries as earlier versions wrote them. The session's own totals are repaired."""
    metadata = {"model": "gpt-5", "usage": {"input_tokens": 7, "output_tokens": 2}}
    with monkeypatch.context() as earlier:
        dump = Totals.dump
        earlier.setattr(Totals, "dump", lambda self: {k: v for k, v in dump(self).items() if k != "models"})
        append(session.project, session.pk, [EntryDraft(ModelOutput(text="done"), metadata=metadata)])
    append(session.project, session.pk, [EntryDraft(ModelOutput(text="really"), metadata=metadata)])
    ran = run("rebuild_projections", session.pk, "--check")
    assert "entry 9 and later ones without totals by model" in ran.out
    assert ran.out.splitlines()[2:] == ["    session differed in tail, shown_tokens"]
    assert "1 session changed" in run("rebuild_projections", session.pk).out
    assert Session.objects.get(pk=session.pk).live_tail.totals.models["gpt-5"].input == 14
    again = run("rebuild_projections", session.pk, "--check")
    assert again.error == ""
    assert "no difference" in again.out


def test_only_the_named_sessions_are_read(run: Run, session: Session) -> None:
    assert run("rebuild_projections", session.pk).out.startswith("1 session with 8 entries read")


def test_a_fork_is_rebuilt_after_the_session_it_was_forked_from(run: Run, session: Session) -> None:
    Episode.objects.filter(session=session).delete()
    assert run("rebuild_projections", session.forks.get().pk).error == ""
    assert run("rebuild_projections", "--check").error == ""


def test_an_unknown_session_is_named(run: Run) -> None:
    unknown = uuid4()
    assert run("rebuild_projections", unknown).error == f"There is no session {unknown}."


def test_an_invalid_id_is_refused(run: Run) -> None:
    assert "invalid UUID value: 'nonsense'" in run("rebuild_projections", "nonsense").error
