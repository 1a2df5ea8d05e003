"""``playhead compare``: where two runs differ."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, answer, ask, draft, failed, ok, tool_calls
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
    table, _, diff = printed.out.partition("\nDifferences of step 2 of A (-) and step 2 of B (+):\n")
    assert diff.splitlines() == ["result", "  -no such file", "  +PASS"]
    rows = [line.split()[:3] for line in table.splitlines()[-3:]]
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


def run_of(project: Project, *drafts: EntryDraft) -> UUID:
    session = create_session(project)
    append(project, session.pk, list(drafts))
    return session.pk


def test_both_columns_show_the_part_that_differs_and_a_diff_follows(
    playhead: Playhead, project: Project
) -> None:
    same, lines = "cd /a/long/folder && " * 8, [f"line {n}" for n in range(60)]
    changed = [*lines[:30], "line x", *lines[31:]]
    a, b = (
        run_of(
            project, ask("go"), act("sh", command=same + end), ok(outputs="\n".join(text)), act("next"), ok()
        )
        for end, text in (("make one", lines), ("make two", changed))
    )
    out = playhead("compare", a, b).out
    row = next(line for line in out.splitlines() if line.split()[:3] == ["1", "1", "different"])
    assert "make one" in row
    assert "make two" in row
    assert row.count("…") >= 2
    diff = out.partition("Differences of step 1 of A (-) and step 1 of B (+):\n")[2].splitlines()
    assert diff[0] == "argument command"
    assert [line[:3] for line in diff[1:3]] == ["  -", "  +"]
    assert diff[3:6] == ["result", "  @@ -28,7 +28,7 @@", "   line 27"]
    assert "  -line 30" in diff
    assert "  +line x" in diff
    assert "line 40" not in out


def test_texts_that_differ_late_or_only_in_blanks_are_told_apart(
    playhead: Playhead, project: Project
) -> None:
    begins = "same words " * 40
    a, b = (run_of(project, act(), ok(outputs=begins + end)) for end in ("one", "two"))
    assert playhead("compare", a, b).out.count("(begins the same)") == 2
    a, b = (run_of(project, answer(f"done{end}")) for end in ("", "  "))
    assert playhead("compare", a, b).out.splitlines()[-4:] == [
        "  -done", "  \\ ends without blanks", "  +done  ", "  \\ ends with 2 spaces",
    ]  # fmt: skip
    a, b = (run_of(project, answer(f"done{end}")) for end in ("", "\n"))
    assert playhead("compare", a, b).out.endswith("Only a line break at the end differs.\n")


def test_inputs_and_parallel_calls_have_diffs_up_to_a_limit(
    playhead: Playhead, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(word: str) -> UUID:
        results = tuple(
            ToolResult(tool_call_id=id, status="success", outputs=f"{word}\n" * 30) for id in "xy"
        )
        drafts = [ask("instruction"), act("ls"), ok(), ask(f"go {word}"), tool_calls("x", "y")]
        return run_of(project, *drafts, draft(ToolResults(results=results)))

    a, b = run("on"), run("off")
    out = playhead("compare", a, b).out
    labels = [line for line in out.splitlines() if line in ("input", "result", "call 2: result")]
    assert labels == ["input", "result", "call 2: result"]
    assert "  -go on\n  +go off\n" in out
    assert out.count("  … 40 more lines") == 2
    assert "instruction" not in out
    monkeypatch.setattr("historyapp.terminal.step_diff.MAX_TEXTS", 1)
    assert playhead("compare", a, b).out.endswith("These differ too: result, call 2: result.\n")


def test_results_in_another_order_are_compared_with_those_of_the_same_calls(
    playhead: Playhead, project: Project
) -> None:
    a, b = (
        run_of(project, tool_calls("x", "y"), *(ok(id, f"{id} {word}" if id == "y" else id) for id in order))
        for order, word in (("xy", "old"), ("yx", "new"))
    )
    diff = playhead("compare", a, b).out.partition("\nDifferences of ")[2].splitlines()
    assert diff[1:] == ["call 2: result", "  -y old", "  +y new"]


def test_the_step_at_which_runs_diverge_has_a_diff_too(
    playhead: Playhead, project: Project, session_id: UUID
) -> None:
    a = run_of(project, act("ls"), ok(outputs="a"), act("cat", path="x"), ok())
    b = run_of(project, act("ls"), ok(outputs="b"), act("cat", path="y"), ok())
    out = playhead("compare", a, b).out
    first, second = out.split("Differences of step ")[1:]
    assert first.startswith("1 of A")
    assert second.startswith("2 of A")
    assert "argument path" in second


def test_diffs_of_agents_text_cannot_control_the_terminal(playhead: Playhead, project: Project) -> None:
    a, b = (run_of(project, act("\x1b[2J", **{"\x1b]0;t\x07": end}), ok(outputs=end)) for end in "\x1b\x9b")
    assert set(playhead("compare", a, b).out) & set("\x1b\x07\x9b\r") == set()


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
