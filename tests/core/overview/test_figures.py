"""Figures of whole runs."""

import json
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.overview import step_facts
from historyapp.core.overview.figures import (
    MAX_COMMANDS,
    MAX_FILES,
    MAX_TOOLS,
    RunFigures,
    dump_figures,
    load_figures,
)
from historyapp.core.overview.findings import choose_findings, ending_of
from tests.core.entries import LIVE
from tests.core.overview.runs import Run


def test_time_belongs_to_the_model_the_tools_or_a_person() -> None:
    run = Run().ask().call(after=5).ok(after=30).answer(after=2).ask(after=600).answer(after=4)
    figures = run.figures
    assert (figures.model_time, figures.tool_time, figures.waiting_time) == (11_000, 30_000, 600_000)
    assert (figures.ended_at or 0) - (figures.started_at or 0) == 641_000
    assert figures.waits == [(600_000, 3)]


def test_an_input_during_an_open_call_is_not_waiting_time() -> None:
    figures = Run().ask().call(after=1).ask(after=20).ok(after=10).figures
    assert (figures.tool_time, figures.waiting_time) == (30_000, 0)


def test_notes_take_no_time_of_their_own() -> None:
    figures = Run().ask().call().note("hook").ok(after=3).figures
    assert figures.tool_time == 3000


def test_a_clock_that_goes_back_subtracts_no_time() -> None:
    figures = Run().ask().call(after=10).ok(after=-5).answer(after=6).figures
    assert (figures.model_time, figures.tool_time) == (11_000, 0)


def test_entries_that_all_have_the_same_time_are_undated() -> None:
    run = Run().ask()
    for _ in range(100):
        run.call().ok()
    assert not run.figures.is_dated
    assert Run().ask().answer(after=1).figures.is_dated
    assert not Run().figures.is_dated
    assert not Run().answer().figures.is_dated


def test_a_tool_has_its_calls_failures_time_and_tokens_with_steps() -> None:
    figures = Run().call("Bash", command="ls").ok(after=2).call("Bash", command="ls").failed(after=1).figures
    tool = figures.tools["Bash"]
    assert (tool.kind, tool.calls, tool.errors, tool.milliseconds, tool.tokens) == ("shell", 2, 1, 3000, 20)
    assert (tool.steps, tool.error_steps) == ([1, 2], [2])
    assert figures.commands["ls"].errors == 1
    assert figures.first_failure is not None
    assert (figures.first_failure.step, figures.first_failure.line) == (2, "no such file")


def test_results_of_one_entry_share_its_tokens_by_length_and_its_time_equally() -> None:
    calls = tuple(ToolCall(id=id, name=id, arguments={}) for id in ("short", "long"))
    results = (
        ToolResult(tool_call_id="short", status="success", outputs="x" * 9),
        ToolResult(tool_call_id="long", status="success", outputs="x" * 29),
    )
    run = Run().add(ModelOutput(tool_calls=calls)).add(ToolResults(results=results), 4, tokens=400)
    tools = run.figures.tools
    assert {name: (tool.tokens, tool.milliseconds) for name, tool in tools.items()} == {
        "short": (100, 2000),
        "long": (300, 2000),
    }


def test_a_file_has_its_reads_edits_and_lines() -> None:
    run = Run().call("Read", file_path="a.py").ok()
    run.call("Edit", file_path="a.py", old_string="one\ntwo", new_string="one\n2\n3").ok()
    file = run.figures.files["a.py"]
    assert (file.reads, file.edits, file.added, file.removed) == (1, 1, 2, 1)
    assert (file.steps, file.edit_steps) == ([1, 2], [2])


def test_a_failed_call_has_read_and_changed_nothing() -> None:
    run = Run().call("Edit", file_path="a.py", old_string="one", new_string="2").failed()
    run.call("Read", file_path="b.py").stopped()
    assert run.figures.files == {}


def test_commands_read_and_delete_files() -> None:
    run = (
        Run()
        .call("Write", file_path="m/a.svg", content="x")
        .ok()
        .call(command="cat m/a.svg; cat gone")
        .ok("x\ncat: gone: No such file or directory")
    )
    run.note("compaction").call(command="nl -ba m/a.svg").ok().call(command="rm m/a.svg").ok()
    run.call(command="cp b.py c.py").ok().call(command="rm -r c.py m unknown").ok()
    run.call(command="echo 1 > c.py").ok().call(command="rm c.py").failed("rm: c.py: Permission denied")
    patch = "*** Begin Patch\n*** Delete File: d.py\n*** Update File: e.py\n*** Move to: f.py\n*** End Patch"
    files = run.call("apply_patch", patch=patch).ok().figures.files
    shown = {path: (file.reads, file.commands, file.edits, file.deleted_in) for path, file in files.items()}
    assert shown == {
        "m/a.svg": (2, 0, 1, 4),
        "c.py": (0, 2, 0, 0),
        "d.py": (0, 0, 1, 9),
        "e.py": (0, 0, 1, 9),
        "f.py": (0, 0, 1, 0),
    }
    assert (files["m/a.svg"].again, files["m/a.svg"].edit_steps) == ([3], [1, 4])


def test_a_file_has_one_row_for_its_absolute_path_and_its_name_in_the_folder_of_a_command() -> None:
    run = Run().call("exec", cmd="cat t/a.ts", workdir="/w").ok()
    run.call("Edit", file_path="/w/t/a.ts", old_string="x", new_string="y").ok()
    run.call("Read", file_path="/w/b.ts").ok().call("exec", cmd="cat b.ts ../c.ts", workdir="/w").ok()
    run.call("exec", cmd="cat b.ts", workdir="/other").ok().call(
        "exec", cmd="cd t && cat d.ts", workdir="/w"
    ).ok()
    run.call("exec", cmd="rm -r t", workdir="/w").ok()
    files = run.figures.files
    shown = {name: (file.absolute, file.reads, file.edits, file.deleted_in) for name, file in files.items()}
    assert shown == {
        "t/a.ts": ("/w/t/a.ts", 1, 1, 7),
        "b.ts": ("/w/b.ts", 2, 0, 0),
        "../c.ts": ("/c.ts", 1, 0, 0),
        "/other/b.ts": ("/other/b.ts", 1, 0, 0),
        "d.ts": ("", 1, 0, 0),
    }


def test_a_diff_recorded_with_the_result_counts_rather_than_the_arguments() -> None:
    diffs = {"1": {"added": 7, "removed": 6}}
    result = ToolResults(results=(ToolResult(tool_call_id="1", status="success", outputs="ok"),))
    run = Run().call("write_file", file_path="a.svg", content="1\n2\n").add(result, recorded_diffs=diffs)
    file = run.figures.files["a.svg"]
    assert (file.added, file.removed) == (7, 6)


def test_a_refused_command_has_written_nothing() -> None:
    assert Run().call(command="cat > a.py; make").stopped().figures.files == {}


def test_a_tool_counts_for_a_file_by_the_words_of_its_name() -> None:
    run = Run()
    for name, path in (
        ("ls", "src"),
        ("rm", "old"),
        ("move_file", "a.py"),
        ("mkdir", "new"),
        ("upload", "z"),
    ):
        run.call(name, path=path).ok()
    shown = {path: (file.reads, file.edits, file.deleted_in) for path, file in run.figures.files.items()}
    assert shown == {"src": (1, 0, 0), "old": (0, 1, 2), "a.py": (0, 1, 3), "new": (0, 1, 0), "z": (0, 0, 0)}


def test_a_file_is_changed_by_commands_and_has_the_lines_of_the_newest_printed_diff() -> None:
    run = Run().call(command="sed -i s/a/b/ a.py && make").failed().call(command="cat > a.py << X\n1\nX").ok()
    diff = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-a\n+b\n+c\n"
    run.call(command="git diff").ok(diff.replace("+c\n", "")).call(command="git diff").ok(diff)
    run.call(command="git diff main").ok(diff.replace("a.py", "b.py"))
    files = run.figures.files
    assert list(files) == ["a.py"]
    file = files["a.py"]
    assert (file.edits, file.commands, file.diffs, file.diff_added, file.diff_removed) == (0, 2, 2, 2, 1)
    assert file.edit_steps == [1, 2, 3, 4]


def test_a_file_that_is_read_again_after_a_compaction_is_noted() -> None:
    run = Run().call("Read", file_path="a.py").ok().call("Read", file_path="a.py").ok()
    run.note("compaction").ask(channel="compaction").call("Read", file_path="a.py").ok()
    run.call("Read", file_path="b.py").ok()
    assert {path: file.again for path, file in run.figures.files.items()} == {"a.py": [3], "b.py": []}
    assert run.figures.compactions == 1


def test_the_size_of_the_context_is_reported_or_estimated() -> None:
    reported = Run().ask().call(usage={"input_tokens": 500, "output_tokens": 1}).ok().answer()
    assert (reported.figures.sizes.reported, reported.figures.sizes.points) == (True, [(1, 500)])
    estimated = Run().ask().call().ok().answer()
    assert estimated.figures.sizes.points == [(1, 10), (2, 30)]
    assert not estimated.figures.sizes.reported


def test_requests_after_the_lifetime_of_the_cache_are_counted() -> None:
    def usage(size: int, read: int) -> dict[str, Any]:
        written = {"ephemeral_5m_input_tokens": size - read}
        cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": size - read}
        return {"input_tokens": 0, **cached, "cache_creation": written}

    run = Run().call(usage=usage(90_000, 0)).ok().call(after=200, usage=usage(90_500, 0)).ok()
    run.ask(after=400).call(usage=usage(91_000, 20_000)).ok().call(
        after=400, usage=usage(92_000, 91_000)
    ).ok()
    run.note("compaction").call(after=400, usage=usage(30_000, 0)).ok()
    misses = run.figures.cache_misses
    assert (misses.expired, misses.count, misses.tokens, misses.lifetime) == ([3], 1, 70_500, 300)


def test_a_compaction_has_the_sizes_before_and_after_it() -> None:
    usage = [{"input_tokens": size} for size in (900, 100)]
    run = Run().call(usage=usage[0]).ok().note("compaction").call(usage=usage[1]).ok()
    (compaction,) = run.figures.sizes.compactions
    assert (compaction.step, compaction.before, compaction.after) == (2, 900, 100)


def test_a_context_that_shrinks_without_a_compaction_is_a_loss() -> None:
    run = Run()
    for size in (90_000, 86_000, 70_000):
        run.call(usage={"input_tokens": size}).ok()
    run.note("compaction").call(usage={"input_tokens": 20_000}).ok()
    figures = run.figures
    assert [(loss.step, loss.before, loss.after) for loss in figures.sizes.losses] == [(3, 86_000, 70_000)]
    findings = choose_findings(figures, ending_of(figures, is_live=False))
    assert ("context_loss", (3,)) in [(finding.kind, finding.steps) for finding in findings]


def test_a_condensation_of_openhands_is_a_compaction_of_a_part() -> None:
    usage = [{"input_tokens": size} for size in (900, 600)]
    run = Run().call(usage=usage[0]).ok().note("condensation").call(usage=usage[1]).ok()
    (compaction,) = run.figures.sizes.compactions
    assert (compaction.step, compaction.before, compaction.after) == (2, 900, 600)
    estimated = Run().ask().call().ok().note("Condensation").call().ok().answer().figures.sizes
    (compaction,) = estimated.compactions
    assert (compaction.step, compaction.before, compaction.after) == (2, 10, 0)
    assert estimated.points == [(1, 10), (2, 30), (3, 50)]


def test_a_script_of_codex_writes_only_the_files_of_its_commands() -> None:
    scripts = ("const hits=a.filter(x=>x.name); text(hits)", 'await tools.exec_command({cmd:"ls > a.txt"})')
    run = Run()
    for script in scripts:
        run.add(ModelOutput(tool_calls=(ToolCall(id="1", name="exec", arguments=script),))).ok()
    assert list(run.figures.files) == ["a.txt"]


def test_the_lines_of_a_patch_count_for_each_of_its_files() -> None:
    update = "*** Update File: a.py\n@@\n-x\n+y\n+z\n*** Add File: b.py\n+one\n"
    patch = f"*** Begin Patch\n{update}*** Delete File: c.py\n*** End Patch"
    files = Run().call("apply_patch", patch=patch).ok().figures.files
    lines = {path: (file.added, file.removed) for path, file in files.items()}
    assert lines == {"a.py": (2, 1), "b.py": (1, 0), "c.py": (0, 0)}


def test_all_calls_of_a_step_of_2000_calls_are_counted() -> None:
    calls = tuple(ToolCall(id=str(n), name="Read", arguments={"path": f"{n}.py"}) for n in range(2000))
    results = tuple(ToolResult(tool_call_id=str(n), status="success", outputs="x") for n in range(2000))
    figures = Run().add(ModelOutput(tool_calls=calls)).add(ToolResults(results=results), 1).figures
    assert (figures.tools["Read"].calls, figures.tools["Read"].steps) == (2000, [1])
    assert (len(figures.files), figures.more_files) == (MAX_FILES, 2000 - MAX_FILES)


def test_the_state_is_bounded_in_a_run_of_any_length() -> None:
    run = Run()
    for n in range(1500):
        run.ask(after=1).call(f"tool{n % 200}", command=f"run {n}").failed(f"reason {n}", after=n % 7)
        run.call("Edit", file_path=f"{n}.py", old_string="a", new_string="b").ok(after=1)
    figures = run.figures
    assert (len(figures.tools), len(figures.commands)) == (MAX_TOOLS + 1, MAX_COMMANDS)
    assert sum(tool.calls for tool in figures.tools.values()) == 3000
    assert len(dump_figures(figures)) < 200_000
    assert len(figures.sizes.points) <= 400


@given(LIVE)
def test_figures_are_loaded_as_stored_and_counting_continues(entries) -> None:  # type: ignore[no-untyped-def]
    run = Run()
    run.entries = entries
    whole, again = RunFigures(), RunFigures()
    for part in run.runs:
        whole.add_group(part)
        again.add_group(part)
        again = load_figures(dump_figures(again))
    assert again == whole
    assert json.loads(dump_figures(whole))["steps"] == sum(isinstance(e.body, ModelOutput) for e in entries)


def test_likely_failures_are_counted_separately_from_reported_ones() -> None:
    run = Run().call("Bash", command="pytest").ok("F\n==== 1 failed, 2 passed in 0.10s ====").call().failed()
    figures = run.figures
    tool = figures.tools["Bash"]
    assert (tool.errors, tool.likely_failures, tool.error_steps, tool.likely_steps) == (1, 1, [2], [1])
    assert figures.commands["pytest"].likely_failures == 1
    assert figures.first_failure is not None
    assert (figures.first_failure.step, figures.first_failure.rule) == (1, "failed_tests")


def test_a_result_of_many_calls_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One result of 1 MB without an id answered 1,000 calls, and was read for each: 31 seconds."""
    reads = list[str]()
    for name in ("digest_of", "printed_patches", "likely_failure"):
        real = getattr(step_facts, name)

        def noted(*given: Any, real: Any = real) -> Any:
            reads.append("read")
            return real(*given)

        monkeypatch.setattr(step_facts, name, noted)
    run = Run()
    calls = tuple(ToolCall(id=str(n), name="bash", arguments={"command": "submit"}) for n in range(50))
    run.add(ModelOutput(tool_calls=calls), 1)
    before = len(reads)
    text = "diff --git a/x b/x\n+one\n-two\n-three\n"
    run.add(ToolResults(results=(ToolResult(status="success", outputs=text),)), 2)
    figures = run.figures
    assert len(reads) - before - len(calls) == 3  # and one digest for the arguments of each call
    assert (figures.tools["bash"].calls, round(figures.tools["bash"].milliseconds)) == (50, 2000)
    assert (figures.files["x"].diffs, figures.files["x"].diff_removed) == (1, 2)


@pytest.mark.parametrize(
    ("command", "line", "used"),
    [
        ("cat a.ts; tsc b.ts", "a.ts(3,1): error TS2322: no", {"a.ts": (1, 0)}),
        ("cat old.py; rm old.py; pytest", "ERROR tests/test_old.py", {"old.py": (1, 1)}),
        ("cat a.py b.py; make", "cat: b.py: No such file or directory", {"a.py": (1, 0)}),
        ("rm a.py; make", "rm: cannot remove 'a.py': No such file or directory", {}),
    ],
)
def test_a_file_that_a_program_could_not_find_is_not_used(
    command: str, line: str, used: dict[str, tuple[int, int]]
) -> None:
    files = Run().call(command=command).failed(line).figures.files
    assert {name: (file.reads, file.deleted_in) for name, file in files.items()} == used


@pytest.mark.parametrize(
    ("command", "folder", "name", "absolute"),
    [
        ("pushd t; cat a.py", "/w", "a.py", ""),
        ("true && cd\tt; cat a.py", "/w", "a.py", ""),
        ("(cd t && cat a.py)", "/w", "a.py", ""),
        ("if cd t; then cat a.py; fi", "/w", "a.py", ""),
        ("while ! command cd t; do cat a.py; done", "/w", "a.py", ""),
        ("A='1 2' builtin cd t; cat a.py", "/w", "a.py", ""),
        ("case x in y) cd t;; esac; cat a.py", "/w", "a.py", ""),
        ("eval 'cd t'; cat a.py", "/w", "a.py", ""),
        ("echo 'cd t; cd u'; cat a.py", "/w", "a.py", "/w/a.py"),
        ("git abcd && cat a.py # cd back", "/w", "a.py", "/w/a.py"),
        ("cat a.py", "src", "src/a.py", ""),
        ("cat ./a.py", ".", "a.py", ""),
    ],
)
def test_a_file_is_in_the_folder_of_its_command(command: str, folder: str, name: str, absolute: str) -> None:
    files = Run().call("exec", cmd=command, workdir=folder).ok().figures.files
    assert {name: file.absolute for name, file in files.items()} == {name: absolute}


def test_a_deletion_in_another_folder_deletes_nothing() -> None:
    run = Run().call("exec", cmd="cat a.ts t/b.ts", workdir="/w").ok()
    run.call("exec", cmd="rm -rf t a.ts", workdir="/other").ok().call(
        "exec", cmd="rm -rf t", workdir="/w"
    ).ok()
    assert {name: file.deleted_in for name, file in run.figures.files.items()} == {"a.ts": 0, "t/b.ts": 3}


def test_a_file_has_one_row_once_the_folder_of_its_name_is_known() -> None:
    run = Run().call("Read", file_path="/w/a.ts").ok().call("exec", cmd="cat a.ts").ok()
    run.call("exec", cmd="cat a.ts", workdir="/w").ok()
    assert {name: file.reads for name, file in run.figures.files.items()} == {"/w/a.ts": 2, "a.ts": 1}


def test_short_command_lines_of_a_step_are_read_up_to_a_number() -> None:
    """990 lines with 20 deletions each were compared with 300 files for 12 seconds."""
    lines = [f"echo x > {number}.txt" for number in range(101)]
    calls = tuple(ToolCall(id=line, name="bash", arguments={"command": line}) for line in lines)
    read = ToolCall(id="read", name="Read", arguments={"file_path": "a.py"})
    figures = Run().add(ModelOutput(tool_calls=(read, *calls))).figures
    assert [*figures.files] == ["a.py", *(f"{number}.txt" for number in range(100))]


def test_the_command_lines_of_a_step_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """990 commands with 260 redirections each took two seconds for each step."""
    monkeypatch.setattr(step_facts, "MAX_PARSED", 50)
    monkeypatch.setattr(step_facts, "_MIN_COMMAND", 0)
    commands = ["echo x > a.py; rest", "echo x > b.py; rest", "echo x > c.py; rest"]
    calls = tuple(ToolCall(id=line, name="bash", arguments={"command": line}) for line in commands)
    figures = Run().add(ModelOutput(tool_calls=calls)).add(ModelOutput(tool_calls=calls[2:])).figures
    assert [*figures.files] == ["a.py", "b.py", "c.py"]
    assert figures.files["c.py"].steps == [2]
