"""Patches and edits as diffs of files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.patches import begins_with_patch, edit_diff, parse_patch
from historyapp.core.text import MAX_READ
from tests.dashboard.tools.samples import DIFF, PATCH


def files(text: str) -> list[tuple[str, str, str]]:
    patch = parse_patch(text)
    return [(file.path, file.note, file.text) for file in patch.files] if patch else []


def test_a_patch_of_codex_is_divided_into_its_files() -> None:
    assert files(PATCH) == [
        ("a.py", "", "@@ def f():\n-    return 1\n+    return 2"),
        ("b.py", "new file", "+x = 1"),
    ]


def test_a_patch_in_a_string_of_a_script_is_divided_likewise() -> None:
    script = f"const patch = {json.dumps(PATCH + chr(10))};\ntext(await tools.apply_patch(patch));\n"
    assert files(script) == files(PATCH)
    quoted = PATCH.replace("return 2", 'return "2\\n"')
    assert files(f"tools.apply_patch({json.dumps(quoted)})") == files(quoted)
    assert files("*** Begin Patch\\n*** Add File: b\\n+y") == [("b", "new file", "+y")], "not terminated"


def test_a_moved_or_deleted_file_is_marked() -> None:
    text = (
        "*** Begin Patch\n*** Delete File: a\n*** Update File: b\n*** Move to: c\n@@\n-x\n+y\n*** End Patch"
    )
    assert files(text) == [("a", "deleted", ""), ("b", "moved to c", "@@\n-x\n+y")]


def test_lines_before_the_first_named_file_are_kept() -> None:
    patch = parse_patch("*** Begin Patch\n*** Add File: \n+x = 1\n*** Add File: b\n+y\n*** End Patch")
    assert patch is not None
    assert patch.others == ["*** Add File: ", "+x = 1"]
    assert [(file.path, file.lines) for file in patch.files] == [("b", ["+y"])]


def test_paths_of_a_git_patch_have_no_prefix() -> None:
    assert files(DIFF) == [("src/a.py", "", "@@ -40,3 +40,3 @@ def f():\n before\n-old\n+new\n after")]


def test_a_plain_diff_is_read_as_a_patch_with_new_files() -> None:
    assert files("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one") == [("x", "new file", "@@ -0,0 +1 @@\n+one")]
    assert files("--- a/x\t2020\n+++ /dev/null\n@@ -1 +0,0 @@\n-one")[0][:2] == ("x", "deleted")


def test_a_removed_line_that_looks_like_a_name_stays_a_line() -> None:
    assert files("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- comment\n+two")[0][2].endswith("--- comment\n+two")


def test_lines_outside_of_the_files_are_kept() -> None:
    patch = parse_patch(f"apply_patch <<'E'\n{PATCH}\nE")
    assert patch
    assert patch.others == ["apply_patch <<'E'", "E"]


@pytest.mark.parametrize(
    "text", ["", "hello", "*** Begin Patch\nno patch follows", "--- a\n+++ b", "+a\n-b", "@@ -1 @@"]
)
def test_a_text_that_is_not_a_patch_gives_none(text: str) -> None:
    assert parse_patch(text) is None


marks = st.sampled_from(
    ["--- a/x", "+++ b/x", "@@ -1 +1 @@", "+a", "-b", " c", "diff --git a/x b/x", "word", ""]
)


@given(st.lists(marks).map("\n".join))
def test_no_changed_line_of_a_patch_is_lost(text: str) -> None:
    patch = parse_patch(text)
    if patch:
        kept = "\n".join([*(file.text for file in patch.files), *patch.others])
        for word in ("+a", "-b", "word"):
            assert kept.split("\n").count(word) == text.split("\n").count(word)


def test_an_edit_keeps_unchanged_lines() -> None:
    assert edit_diff("one\ntwo\nthree", "one\n2\nthree") == " one\n-two\n+2\n three"


def test_the_lines_of_a_long_patch_are_not_read() -> None:
    """Each page of a patch of 20 MB took 30 s."""
    head = "*** Begin Patch\n*** Update File: a\n"
    assert parse_patch(head + "+a\n" * 1_000)
    assert parse_patch(head + "+a\n" * (MAX_READ // 3)) is None


def test_the_lines_of_a_long_edit_are_not_compared() -> None:
    edit = edit_diff("same\n" * (MAX_READ // 5), "same\n\nnew\n")
    assert edit == "-same\n" * (MAX_READ // 5) + "+same\n+\n+new"
    assert edit_diff("", "+" * (MAX_READ + 1))[:2] == "++"


def test_a_patch_is_looked_for_only_at_the_beginning_of_a_text() -> None:
    """Megabytes of output were copied for it."""
    for beginning in (DIFF, "--- a/a.py\n+++ b/a.py\n", PATCH):
        assert begins_with_patch(f"\n  {beginning}")
        assert not begins_with_patch(f"x\n{beginning}")
        assert not begins_with_patch(1_000 * "\n" + beginning)
