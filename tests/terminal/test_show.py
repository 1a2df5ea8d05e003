"""``playhead show``."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.terminal.show import NEWEST_SHOWN, step_range
from tests.services.drafts import act, ask, ok
from tests.terminal.conftest import TITLE, Playhead

START = datetime(2026, 11, 1, 10, tzinfo=UTC)
STEPS = [ask("Please fix it."), act("ls"), ok(), act("ls"), ok()]


def test_a_session_is_shown_with_its_steps(playhead: Playhead, session_id: UUID) -> None:
    lines = playhead("show", session_id).out.splitlines()
    assert lines[0] == TITLE
    assert lines[1] == f"{session_id}  fixer"
    assert lines[2].startswith("live  3 steps, 1 error, ")
    table = lines[-3:]
    assert [line.split()[:2] for line in table] == [["1", "success"], ["2", "error"], ["3", "success"]]
    assert "go test ./..." in table[1]
    assert "no such file" in table[1]


def test_the_time_of_a_run_begins_with_its_first_entry_and_ends_before_a_rewind(
    playhead: Playhead, project: Project
) -> None:
    session = create_session(project)
    Session.objects.filter(pk=session.pk).update(created_at=START - timedelta(hours=3))
    entries = [draft._replace(created_at=START + timedelta(minutes=n)) for n, draft in enumerate(STEPS)]
    append(project, session.pk, entries)
    assert "2026-11-01T10:00:00Z to 2026-11-01T10:04:00Z  4 min 0 s" in playhead("show", session.pk).out
    assert playhead("sessions").out.splitlines()[-1].endswith("4 min 0 s")
    rewind(project, session.pk, Target(to_step=1))
    shown = playhead("show", session.pk, "--json").answer
    assert (shown["first_entry_at"], shown["duration"]) == ("2026-11-01T10:00:00Z", 120.0)
    forked = playhead("show", fork(project, session.pk).pk, "--json").answer
    assert (forked["first_entry_at"], forked["duration"]) == ("2026-11-01T10:00:00Z", 120.0)
    rewind(project, session.pk, Target(to_position=0))
    shown = playhead("show", session.pk, "--json").answer
    assert (shown["first_entry_at"], shown["duration"]) == (None, None)
    assert " to " not in playhead("show", session.pk).out


@pytest.mark.parametrize(
    ("chosen", "numbers"), [("2", [2]), ("2-", [2, 3]), ("-2", [1, 2]), ("1-3", [1, 2, 3])]
)
def test_a_range_of_steps_is_shown_without_the_rest(
    playhead: Playhead, session_id: UUID, chosen: str, numbers: list[int]
) -> None:
    page = playhead("show", session_id, f"--steps={chosen}", "--json").answer
    assert [item["number"] for item in page["items"]] == numbers
    printed = playhead("show", session_id, f"--steps={chosen}").out.splitlines()[1:]
    assert [int(line.split()[0]) for line in printed] == numbers


@pytest.mark.parametrize("text", ["", "-", "a", "1-2-3", "1,2", "9" * 40])
def test_an_invalid_range_is_wrong_usage(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        step_range(text)


def test_missing_steps_are_wrong_usage(playhead: Playhead, session_id: UUID) -> None:
    for arguments in (["--steps=4-"], ["--steps=3-2"], ["--steps=0"], ["1", "--steps=1"]):
        assert playhead("show", session_id, *arguments).code == 2
    assert playhead("show", session_id, "4").code == 1


def test_only_the_newest_steps_of_a_long_session_are_shown(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    append(project, session_id, [entry for _ in range(NEWEST_SHOWN) for entry in (act(), ok())])
    printed = playhead("show", session_id)
    assert printed.out.splitlines()[-NEWEST_SHOWN].split()[0] == "4"
    assert printed.err == "These are the newest 20 of 23 steps. --steps shows others.\n"


def test_one_step_is_shown_completely(playhead: Playhead, session_id: UUID) -> None:
    lines = playhead("show", session_id, 2).out.splitlines()
    assert lines[0].startswith("Step 2  error")
    assert lines[1:] == [
        *(
            "Thought",
            "  let me see",
            "Call test",
            "  command: go test ./...",
            "Result error",
            "  no such file",
        ),
    ]
    assert playhead("show", session_id, -2, "--json").answer["number"] == 2


def test_several_steps_are_shown_completely(playhead: Playhead, session_id: UUID) -> None:
    out = playhead("show", session_id, "--steps=2-3", "--full").out
    assert [line for line in out.splitlines() if line.startswith("Step")][1].startswith("Step 3  success")
    page = playhead("show", session_id, "--steps=2-3", "--full", "--json").answer
    assert page["items"][0]["result"]["reason"] == "no such file"


def test_an_argument_of_several_lines_is_below_its_name(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    append(
        project, session_id, [act("write", path="a.py", content="x = 1\ny = 2\n"), ok(outputs={"lines": 2})]
    )
    lines = playhead("show", session_id, -1).out.splitlines()
    start = lines.index("Call write")
    assert lines[start + 1 : start + 5] == ["  path: a.py", "  content:", "      x = 1", "      y = 2"]
    assert lines[-3:] == ["  {", '    "lines": 2', "  }"]
