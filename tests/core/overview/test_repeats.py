"""The rules of repeated work."""

from historyapp.core.overview.repeats import MAX_SEEN
from tests.core.overview.runs import Run


def findings(run: Run) -> list[tuple[str, int, list[int]]]:
    return [(repeat.rule, repeat.count, repeat.steps) for repeat in run.figures.repeated.findings()]


def test_the_same_call_with_the_same_result_is_repeated_work() -> None:
    run = Run().call(command="ls").ok("a").call(command="ls").ok("b").call(command="ls").ok("a")
    assert findings(run) == [("same_call_same_result", 2, [1, 3])]


def test_another_argument_or_another_tool_is_not_a_repetition() -> None:
    run = Run().call(command="ls").ok().call(command="pwd").ok().call("Other", command="ls").ok()
    assert findings(run) == []


def test_a_call_without_a_result_is_not_a_repetition() -> None:
    assert findings(Run().call(command="ls").call(command="ls")) == []


def test_two_alternating_calls_are_found_from_the_sixth_step() -> None:
    def turns(steps: int) -> Run:
        run = Run()
        for n in range(steps):
            run.call(command=f"command {n % 2}").ok(str(n))
        return run

    assert findings(turns(5)) == []
    assert findings(turns(6)) == [("alternating_calls", 6, [1, 2, 3, 4, 5, 6])]
    assert findings(turns(9))[0][:2] == ("alternating_calls", 9)


def test_one_repeated_call_does_not_count_as_alternating() -> None:
    run = Run()
    for n in range(8):
        run.call(command="ls").ok(str(n))
    assert findings(run) == []


def test_two_series_of_alternating_calls_are_two_findings() -> None:
    run = Run()
    for n in range(13):
        run.call(command="pause" if n == 6 else f"command {n % 2}").ok(str(n))
    assert [count for _, count, _ in findings(run)] == [6, 6]


def test_three_failed_steps_in_a_row_are_a_streak() -> None:
    run = (
        Run()
        .call(command="a")
        .failed("1")
        .call(command="b")
        .failed("2")
        .answer()
        .call(command="c")
        .failed("3")
    )
    assert findings(run) == [("error_streak", 3, [1, 2, 4])]
    assert findings(run.call(command="d").ok()) == [("error_streak", 3, [1, 2, 4])]
    assert findings(Run().call(command="a").failed("1").call(command="b").failed("2")) == []


def test_a_streak_names_each_tool_that_failed_and_a_target_only_if_all_calls_have_it() -> None:
    run = Run().call("Open", command="a").failed("1")
    for command in ("b", "c"):
        run.call(command=command).failed(command)
    streak = run.figures.repeated.findings()[0]
    assert (streak.tool, streak.tools, streak.target) == ("Open", ["Open", "Bash"], "")
    same = Run()
    for n in range(3):
        same.call(command="make").failed(str(n))
    streak = same.figures.repeated.findings()[0]
    assert (streak.tools, streak.target) == (["Bash"], "make")


def test_repeated_calls_are_remembered_before_others() -> None:
    run = Run().call(command="again").ok().call(command="again").ok()
    for n in range(MAX_SEEN + 50):
        run.call(command=f"once {n}").ok()
    assert findings(run.call(command="again").ok()) == [("same_call_same_result", 3, [1, 2, MAX_SEEN + 53])]
