"""The files of a run: which calls count for them."""

from tests.core.overview.runs import Run


def test_an_edit_without_a_file_changes_the_open_file() -> None:
    run = Run().call("create", filename="a.py").ok().call("edit", replacement_text="x\ny").ok()
    run.call("shell", command="open b.py 12").ok().call("shell", command="edit 1:1\nx\nend_of_edit").ok()
    files = run.figures.files
    assert [(path, file.edit_steps, file.added) for path, file in files.items()] == [
        ("a.py", [1, 2], 2),
        ("b.py", [4], 1),
    ]
    assert not Run().call("edit", replacement_text="x").ok().figures.files


def test_successful_edits_that_name_no_file_are_counted() -> None:
    run = Run().call("apply_patch", input="[REDACTED]").ok().call("apply_patch", input="[REDACTED]").failed()
    figures = run.call("apply_patch", input="[REDACTED]").figures
    assert (figures.unnamed_edits, figures.unnamed_edit_steps, figures.files) == (1, [1], {})
    assert figures.tools["apply_patch"].kind == "edit"
    named = Run().call("create", filename="a.py").ok().call("edit", replacement_text="x\ny").ok()
    assert named.figures.unnamed_edits == 0


def test_an_edit_that_was_refused_without_an_error_has_changed_nothing() -> None:
    refusal = "Your proposed edit has introduced new syntax error(s).\n\nERRORS:\n- E999 IndentationError"
    run = Run().call("open", path="a.py").ok().call("edit", replacement_text="x\ny").ok(refusal)
    figures = run.call("edit", replacement_text="x").ok("File updated.").figures
    assert [(file.edits, file.added, file.edit_steps) for file in figures.files.values()] == [(1, 1, [3])]
    figures = run.call("Write", file_path="new.py", content="x").ok("Error: the file is read-only").figures
    assert list(figures.files) == ["a.py"]


def test_a_submission_of_swe_agent_prints_a_diff_after_a_blank_line() -> None:
    lines = [
        "",
        "diff --git a/src/a.py b/src/a.py",
        "--- a/src/a.py",
        "+++ b/src/a.py",
        "@@ -1 +1 @@",
        "-a",
        "+b",
    ]
    diff = "\r\n".join(lines)
    for call in (Run().call("submit"), Run().call("shell", command="submit")):
        ((path, file),) = call.ok(diff).figures.files.items()
        assert (path, file.diffs, file.diff_added, file.diff_removed) == ("src/a.py", 1, 1, 1)


def test_a_search_for_a_file_does_not_read_it() -> None:
    assert not Run().call("find_file", file_name="a.py", dir="src").ok("src/a.py").figures.files


def test_commands_that_may_change_files_without_names_are_listed() -> None:
    run = Run().call("bash", command="git stash").ok().call("bash", command="git checkout -- a.py").ok()
    run.call("bash", command="rm *.log").failed().call("bash", command="rm *.log").stopped()
    figures = run.call("bash", command="ls; rm -r src").ok().figures
    assert figures.further_changes == [1, 5]
    assert [(path, file.commands) for path, file in figures.files.items()] == [("a.py", 1)]
