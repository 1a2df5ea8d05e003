"""``playhead compare``: where two runs differ."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from historyapp.core.entries import ModelOutput
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, failed, ok
from tests.terminal.conftest import Playhead


@pytest.fixture
def forked(project: Project, session_id: UUID) -> Session:
    """A fork after the first step. Its later steps differ."""
    made = fork(project, session_id, at_step=1)
    append(
        project, made.pk, [act("test", command="go test ./..."), ok(outputs="PASS"), act("push"), failed()]
    )
    return made


def test_a_fork_shares_steps_and_then_diverges(playhead: Playhead, session_id: UUID, forked: Session) -> None:
    printed = playhead("compare", session_id, forked.pk)
    assert printed.code == 1
    assert "Shared from the beginning: 1 step." in printed.out
    assert "The first difference, an input or a result, is at step 2 of A and step 2 of B." in printed.out
    assert "The runs diverge at step 3 of A and step 3 of B." in printed.out
    rows = [line.split()[:3] for line in printed.out.splitlines()[-3:]]
    assert rows == [["2", "2", "different"], ["3", "only", "A"], ["3", "only", "B"]]


def test_the_first_step_of_both_runs_is_shown_at_any_distance(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    made = fork(project, session_id, at_step=0)
    append(project, session_id, [draft for n in range(60) for draft in (act("look", n=n), ok())])
    append(project, made.pk, [act("push", to="there"), ok()])
    printed = playhead("compare", session_id, made.pk)
    assert "The runs diverge at step 1 of A and step 1 of B." in printed.out
    rows = printed.out.splitlines()
    own = next(row for row in rows if row.split()[:3] == ["1", "only", "B"])
    assert "push" in own
    assert len(rows) < 40


def test_a_fork_without_own_steps_does_not_differ(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    printed = playhead("compare", session_id, fork(project, session_id).pk)
    assert printed.code == 0
    assert "The runs do not differ." in printed.out


def test_a_point_in_time_and_a_take_can_be_compared(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    rewound = rewind(project, session_id, Target(to_step=1))
    assert playhead("compare", session_id, f"{session_id}@3").code == 0
    then = playhead("compare", session_id, f"{session_id}@7", "--json")
    assert then.code == 1
    assert then.answer["counts"]["only_b"] == 2
    take = playhead("compare", session_id, f"{session_id}/takes/{rewound.position}", "--json")
    assert take.answer["common"]["steps"] == 1


def test_only_pairs_around_the_first_difference_are_shown_unless_all_are_requested(
    playhead: Playhead, project: Project, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.terminal.compare.MAX_ITEMS", 50)
    made = fork(project, session_id, at_step=0)
    append(project, session_id, [draft for n in range(70) for draft in (act("look", n=n), ok())])
    append(project, made.pk, [act("ls"), ok(outputs="shop.py")])
    cut = playhead("compare", session_id, made.pk)
    whole = playhead("compare", session_id, made.pk, "--all")
    assert "--all shows the others" in cut.err
    assert len(cut.out.splitlines()) < 40
    assert whole.err == ""
    assert len(whole.out.splitlines()) > 70
    assert len(playhead("compare", session_id, made.pk, "--all", "--json").answer["pairs"]["items"]) >= 72


def test_the_time_of_a_run_has_its_units(playhead: Playhead, project: Project) -> None:
    session = create_session(project)
    start = datetime(2026, 11, 1, tzinfo=UTC)
    for minutes in (0, 1, 302):
        append(project, session.pk, [draft(ModelOutput(text="done"), start + timedelta(minutes=minutes))])
    totals = playhead("compare", session.pk, f"{session.pk}@2").out.splitlines()[:3]
    assert [line.split("  ")[-1].strip() for line in totals] == ["Time", "5 h 2 min", "1 min 0 s"]


@pytest.mark.parametrize("name", ["nonsense", "last@x", "last/takes/999", "last@99999"])
def test_the_error_of_a_missing_run_names_it(playhead: Playhead, session_id: UUID, name: str) -> None:
    printed = playhead("compare", session_id, name)
    assert printed.code in (1, 2)
    assert printed.err.startswith("playhead: ")
    assert printed.out == ""
