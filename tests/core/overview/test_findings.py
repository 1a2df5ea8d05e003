"""How runs end, and which findings an overview lists."""

import pytest

from historyapp.core.entries import INTERRUPTION
from historyapp.core.overview.findings import MAX_FINDINGS, SubagentFailures, choose_findings, ending_of
from tests.core.overview.runs import Run

CALLED = Run().ask().call(command="go test")


@pytest.mark.parametrize(
    ("run", "is_live", "kind", "steps"),
    [
        (Run(), True, "empty", ()),
        (Run().ask(), False, "empty", ()),
        (Run().call(), True, "running", (1,)),
        (Run().call().ok(), True, "running", (1,)),
        (Run().call().failed(), True, "running", (1,)),
        (Run().call().ok().answer(), True, "answered", (2,)),
        (Run().call(), False, "no_result", (1,)),
        (Run().call().ok(), False, "unanswered", (1,)),
        (Run().call().failed(), False, "error", (1,)),
        (Run().call().ok().answer(), False, "answered", (2,)),
        (Run().call().ok().answer().ask(), True, "running", (2,)),
        (Run().call().ok().answer().ask(), False, "unanswered", (2,)),
        (Run().call().failed().ask(), False, "unanswered", (1,)),
        (Run().call().stopped().ask(), False, "unanswered", (1,)),
        (Run().call().ask(), False, "no_result", (1,)),
        (Run().answer().ask().ask(channel=INTERRUPTION), True, "interrupted", (1,)),
        (Run().answer().ask().ask(channel=INTERRUPTION), False, "interrupted", (1,)),
        (Run().answer().ask().ask(channel=INTERRUPTION).ask(), True, "running", (1,)),
        (Run().answer().ask().ask(channel=INTERRUPTION).call(), True, "running", (2,)),
        (Run().call().ok().ask(channel=INTERRUPTION), True, "interrupted", (1,)),
        (Run().answer().ask(channel="harness"), False, "answered", (1,)),
        (Run().call(command="go test").failed("FAIL").answer(), False, "failed_command", (1, 2)),
        (Run().call(command="x").failed().call(command="x").ok().answer(), False, "answered", (3,)),
    ],
)
def test_the_newest_step_determines_how_a_run_ended(
    run: Run, *, is_live: bool, kind: str, steps: tuple[int, ...]
) -> None:
    ending = ending_of(run.figures, is_live=is_live)
    assert (ending.kind, ending.steps) == (kind, steps)
    assert ending.text


@pytest.mark.parametrize(
    ("exit_status", "kind", "text"),
    [
        ("Submitted", "submitted", "submitted"),
        ("exit_forfeit", "gave_up", "gave up"),
        ("submitted (exit_cost)", "stopped", "stopped: submitted (exit_cost)"),
        ("LimitsExceeded", "stopped", "stopped: LimitsExceeded"),
        ("exit_total_execution_time", "stopped", "stopped: exit_total_execution_time"),
        ("exit_0", "unanswered", "ended with a result that the agent did not answer"),
        ("no error", "unanswered", "ended with a result that the agent did not answer"),
        ("ok", "unanswered", "ended with a result that the agent did not answer"),
        (0, "unanswered", "ended with a result that the agent did not answer"),
    ],
)
def test_a_transcript_may_state_how_its_run_ended(exit_status: object, kind: str, text: str) -> None:
    run = Run().ask().call(command="submit").ok()
    ending = ending_of(run.figures, is_live=False, exit_status=exit_status)
    assert (ending.kind, ending.text, ending.steps) == (kind, text, (1,))
    assert ending.is_good == (kind == "submitted")
    assert bool(choose_findings(run.figures, ending)) == (kind != "submitted")


def test_findings_lead_to_steps_and_the_most_urgent_come_first() -> None:
    run = Run().ask().call("Read", file_path="a.py").ok()
    for n in range(3):
        run.call(command=f"step {n}").failed(str(n))
    run.call(command="ls").ok().call(command="ls").ok().note("compaction")
    run.ask(after=7200).call("Read", file_path="a.py").ok(after=90)
    figures = run.figures
    findings = choose_findings(figures, ending_of(figures, is_live=False))
    assert [(finding.kind, finding.steps) for finding in findings] == [
        ("first_failure", (2,)),
        ("unanswered", (7,)),
        ("error_streak", (2, 3, 4)),
        ("same_call_same_result", (1, 7)),
        ("read_again", (7,)),
    ]
    assert len(findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("command", "reason", "is_failure"),
    [
        ("rg -n cyspbot MEMORY.md", "Process exited with code 1\nOutput:\n", False),
        ("cd a && grep -r x . | sort", "Exit code 1", False),
        ("grep x a", "<returncode>1</returncode>\n<output>\n</output>", False),
        ("find . | xargs grep x", "<returncode>123</returncode>\n<output>\n</output>", False),
        ("git diff --no-index a b", "Exit code: 1\nOutput:\ndiff --git a/a b/b\n-1\n+2", False),
        ("diff a b", "Exit code 1\n1c1\n< a\n---\n> b", False),
        ("diff a b", "Exit code 1\n3,4d2\n< a", False),
        ("diff -r a b", "Exit code 1\nOnly in a: x", False),
        ("diff -ru a b", "Exit code 1\ndiff -ru a/x b/x\n--- a/x", False),
        ("cmp a b", "Exit code 1\na b differ: byte 1, line 1", False),
        ("cmp a b", "Exit code 1\ncmp: EOF on a after byte 1", False),
        ("diff a missing", "Exit code 2\ndiff: missing: No such file or directory", True),
        ("rg x missing", "Exit code: 2\nOutput:\n", True),
        ("cat missing | grep x", "Exit code 1\ncat: missing: No such file or directory", True),
        ("make && grep x log", "Exit code 1", True),
        ("gh auth status", "Exit code 1", True),
    ],
)
def test_a_search_without_a_match_is_no_first_failure(command: str, reason: str, *, is_failure: bool) -> None:
    figures = Run().ask().call(command=command).failed(reason).figures
    found = [finding.kind for finding in choose_findings(figures, ending_of(figures, is_live=False))]
    assert found == (["first_failure", "error"] if is_failure else ["unanswered"])
    assert figures.tools["Bash"].errors == 1, "the transcript reported it"
    assert bool(figures.last_command and figures.last_command.line) == is_failure


def test_the_first_failure_names_the_searches_before_it_that_found_nothing() -> None:
    def text(searches: int) -> str:
        run = Run().ask()
        for _ in range(searches):
            run.call(command="rg needle").failed("Exit code: 1\nOutput:\n")
        run.call(command="make").failed("Exit code 2").call(command="rg x").failed("Exit code: 1\nOutput:\n")
        return choose_findings(run.figures, ending_of(run.figures, is_live=False))[0].text

    assert text(0) == "First failure: Bash"
    assert text(1) == "First failure: Bash (before it, step 1: a search that found nothing)"
    assert text(5) == "First failure: Bash (before it, steps 1, 2, 3 …: searches that found nothing)"


def test_long_pauses_and_steps_are_findings_with_their_length() -> None:
    run = Run().ask().call(command="make", after=1).ok(after=61).answer(after=1).ask(after=3600).answer()
    figures = run.figures
    findings = choose_findings(figures, ending_of(figures, is_live=False))
    assert [(finding.kind, finding.steps, finding.milliseconds) for finding in findings] == [
        ("longest_pause", (3,), 3_600_000),
        ("slowest_step", (1,), 61_000),
    ]


def test_an_interruption_by_a_person_is_a_finding() -> None:
    run = Run().ask().call(command="git add .").stopped().ask().call(command="rm x").stopped().ask()
    findings = choose_findings(run.answer().figures, ending_of(run.figures, is_live=False))
    assert [(finding.kind, finding.steps) for finding in findings] == [("interrupted_steps", (1, 2))]
    once = Run().ask().call(command="git add .").stopped().figures
    ending = ending_of(once, is_live=False)
    assert [finding.kind for finding in choose_findings(once, ending)] == ["interrupted"], "reported once"


def test_an_interruption_before_the_first_failure_stands_above_it() -> None:
    run = Run().ask().answer().ask().ask(channel="interruption").ask().answer().ask().call("Read").failed()
    findings = choose_findings(run.figures, ending_of(run.figures, is_live=True))
    assert [finding.text for finding in findings] == [
        "Interrupted by a person in or after this step",
        "First failure: Read",
    ]


def test_an_interruption_of_the_model_is_a_finding_at_the_step_before_it() -> None:
    run = Run().ask().answer().ask().ask(channel="interruption").ask().answer()
    findings = choose_findings(run.figures, ending_of(run.figures, is_live=False))
    assert [(finding.kind, finding.steps) for finding in findings] == [("interrupted_steps", (1,))]
    refused = Run().ask().call(command="rm x").stopped().ask(channel="interruption").ask().answer().figures
    assert refused.interrupted == [1], "counted once"
    newest = Run().ask().call("Read").ok().ask(channel="interruption").figures
    findings = choose_findings(newest, ending_of(newest, is_live=True))
    assert [finding.steps for finding in findings] == [(1,)], "no step follows yet"
    early = Run().ask().ask(channel="interruption").ask().answer().figures
    assert [
        (finding.text, finding.steps) for finding in choose_findings(early, ending_of(early, is_live=False))
    ] == [("Interrupted by a person before, in or after this step", (1,))]


def test_a_run_without_trouble_has_no_finding() -> None:
    figures = Run().ask().call(command="ls", after=1).ok(after=1).answer(after=1).figures
    assert choose_findings(figures, ending_of(figures, is_live=False)) == []


def test_an_answer_after_failed_tests_is_a_failed_end_also_if_no_error_was_reported() -> None:
    run = Run().call(command="pytest").ok("F\n==== 1 failed, 2 passed in 0.10s ====").answer()
    ending = ending_of(run.figures, is_live=False)
    assert (ending.kind, ending.text, ending.steps) == (
        "failed_command",
        "answered after failed tests",
        (1, 2),
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (SubagentFailures(1, 1, 1, 0, ()), "The sub-agent had 1 error"),
        (SubagentFailures(1_200, 3, 0, 2, (4,)), "3 of 1,200 sub-agents had 2 likely failures"),
        (SubagentFailures(5, 4, 23, 1, (3, 5)), "4 of 5 sub-agents had 23 errors, 1 likely failure"),
    ],
)
def test_failures_of_sub_agents_follow_the_first_failure(found: SubagentFailures, text: str) -> None:
    figures = Run().call().failed().answer().figures
    findings = choose_findings(figures, ending_of(figures, is_live=False), found)
    assert [finding.kind for finding in findings[:2]] == ["first_failure", "subagent_failures"]
    assert (findings[1].text, findings[1].steps) == (text, found.steps)
    clean = found._replace(failing=0)
    assert len(choose_findings(figures, ending_of(figures, is_live=False), clean)) == len(findings) - 1


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ("ff", "npm run build failed in both runs"),
        ("fff", "npm run build failed in all 3 runs"),
        ("f.ff", "npm run build failed in its last run"),
        ("ff.", ""),
        (".f", ""),
    ],
)
def test_a_command_that_failed_the_last_time_too_is_named(outcomes: str, text: str) -> None:
    run = Run().ask()
    for outcome in outcomes:
        run.call(command="npm run build")
        run = run.failed() if outcome == "f" else run.ok()
    figures = run.answer().figures
    found = choose_findings(figures, ending_of(figures, is_live=False))
    named = [(finding.text, finding.steps) for finding in found if finding.kind == "failing_command"]
    assert named == ([(text, (len(outcomes),))] if text else [])


def test_a_search_that_found_nothing_twice_is_no_failing_command() -> None:
    run = Run().ask()
    for _ in range(2):
        run.call(command="grep -n x a.py").failed("Exit code 1")
    figures = run.answer().figures
    assert figures.commands["grep -n x a.py"].errors == 2
    assert figures.commands["grep -n x a.py"].failures == 0
