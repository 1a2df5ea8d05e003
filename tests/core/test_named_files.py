"""A call names a file by its path, or by the beginning or the end of it."""

import pytest

from historyapp.core import named_files
from historyapp.core.command_files import MAX_PARSED
from historyapp.core.named_files import NamedFile, is_named, text_in_calls
from historyapp.core.searchable import Passage, passages

PATCH = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-old\n+new docs/notes.md\n*** End Patch"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/a/src/app.py", True),
        ("/home/a", True),
        ("app.py", True),
        (".py", True),
        ("a/src/", True),
        ("src", True),
        ("rc/ap", False),
        ("lib", False),
    ],
)
def test_a_path_is_named_by_its_ends_and_by_whole_names(file: str, expected: bool) -> None:
    assert is_named("/home/a/Src/App.py", file) is expected


def test_windows_paths_are_compared_with_slashes() -> None:
    assert is_named("C:\\work\\app.py", "work/app.py")


def call(name: str, arguments: object, position: int = 1) -> Passage:
    body = {"tool_calls": [{"name": name, "arguments": arguments}]}
    (passage,) = passages(position, 1, "model_output", body)
    return passage


@pytest.mark.parametrize(
    ("arguments", "file", "expected"),
    [
        ({"cmd": "cat b.ts", "workdir": "/Other"}, "/other/b.ts", True),
        ({"cmd": "cat b.ts", "workdir": "/w"}, "/other/b.ts", False),
        ({"cmd": "cat ../c.ts", "workdir": "/w"}, "/c.ts", True),
        ({"cmd": "cat a.py", "workdir": "src"}, "src/a.py", True),
        ({"cmd": "cd t; cat b.ts", "workdir": "/other"}, "/other/b.ts", False),
    ],
)
def test_a_command_names_files_from_its_folder(arguments: object, file: str, *, expected: bool) -> None:
    passage = call("exec", arguments)
    assert list(NamedFile(file).first_calls([passage])) == [passage] * expected
    assert text_in_calls(file) in passage.text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"file_path": "src/app.py", "old_string": "a"}, True),
        ({"filePath": "/x/src/app.py"}, True),
        ({"input": PATCH}, True),
        (PATCH, True),
        ({"patch": "--- a/src/app.py\n+++ b/src/app.py\n"}, True),
        ({"changes": [{"path": "b.py"}, {"path": "src/app.py"}]}, True),
        ({"paths": ["b.py", "src/app.py"]}, True),
        ({"command": "cat src/app.py"}, True),
        ({"command": "python src/app.py"}, False),
        ({"command": "cd /x\nsed -i s/a/b/ src/app.py"}, True),
        ({"file_path": "b.py", "new_string": "import src/app.py"}, False),
        ({"file_path": "lib/src/app.pyc"}, False),
    ],
)
def test_only_arguments_and_patches_name_files(arguments: object, expected: bool) -> None:
    assert any(NamedFile("src/app.py").first_calls([call("edit", arguments)])) is expected


def test_command_lines_without_the_name_are_not_parsed() -> None:
    file = NamedFile("app.py")
    calls = [call("bash", {"description": "app.py", "command": "cat b.py"}), call("bash", {"command": "ls"})]
    assert list(file.first_calls([*calls, call("bash", {"command": "python app.py"})])) == []
    assert file.parsed == 2 * named_files._LINE


def test_the_calls_of_an_entry_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MAX_PARSED", 1_000)
    file, line = NamedFile("app.py"), {"command": "cat my_app.pyc " + ";a" * 200}
    reads = {"path": "app.py"}
    of_one_entry = [call("bash", line) for _ in range(9)]
    assert list(file.first_calls([*of_one_entry, call("read", reads), call("read", reads, 2)])) == [
        call("read", reads, 2)
    ]
    assert file.parsed < 2_000
    of_lines = NamedFile("app.py")
    assert list(of_lines.first_calls([call("write", {"content": "app.py\n" * 10_000})])) == []
    assert of_lines.parsed <= 1_000 + named_files._LINE


def test_no_further_calls_of_an_entry_are_read_once_one_names_the_file() -> None:
    file = NamedFile("app.py")
    calls = [call("bash", {"command": f"cat app.py {number}"}) for number in range(9)]
    assert list(file.first_calls(calls)) == calls[:1]
    assert file.parsed == len("cat app.py 0")


@pytest.mark.parametrize(
    ("file", "expected"), [("src/app.py", True), ("app.py", True), ("other/app.py", False), ("new", False)]
)
def test_a_diff_of_git_as_the_result_names_its_files(file: str, *, expected: bool) -> None:
    diff = "diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-old\n+new"
    (passage,) = passages(2, 1, "tool_results", {"results": [{"outputs": diff}]})
    assert list(NamedFile(file).first_calls([passage])) == [passage] * expected
    (later,) = passages(2, 1, "tool_results", {"results": [{"outputs": f"\r\n{diff}"}]})
    assert list(NamedFile(file).first_calls([later])) == [later] * expected
    (listing,) = passages(2, 1, "tool_results", {"results": [{"outputs": "src/app.py\n"}]})
    assert not list(NamedFile(file).first_calls([listing]))


@pytest.mark.parametrize(
    "before",
    ["", "File updated. Review it.\r\n", "Your proposed edit\n- E999\n---\n", "Replaced 1 occurrences.\n"],
)
def test_a_result_that_shows_the_open_file_names_it(before: str) -> None:
    shown = f"{before}[File: /testbed/src/app.py (1997 lines total)]\r\n(1 more line above)\r\n2:x"
    (passage,) = passages(2, 1, "tool_results", {"results": [{"outputs": shown}]})
    assert list(NamedFile("src/app.py").first_calls([passage])) == [passage]
    assert not list(NamedFile("src/other.py").first_calls([passage]))
    for text in ("(Open file: /testbed/src/app.py)", f"a log of SWE-agent\n{shown}"):
        (mention,) = passages(2, 1, "tool_results", {"results": [{"outputs": text}]})
        assert not list(NamedFile("src/app.py").first_calls([mention]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('const r = await tools.exec_command({cmd:"cat src/app.py"});', True),
        ('const r = await tools.exec_command({cmd:"python src/app.py"});', False),
        ('const patch = "*** Begin Patch\\n*** Update File: src/app.py\\n+x\\n*** End Patch";', True),
        ({"command": "create src/app.py"}, True),
    ],
)
def test_a_script_names_the_files_of_its_commands_and_patches(arguments: object, *, expected: bool) -> None:
    assert any(NamedFile("src/app.py").first_calls([call("exec", arguments)])) is expected


def test_the_diffs_of_an_entry_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MAX_PARSED", 100)
    file = NamedFile("app.py")
    text = "diff --git a/b.py b/b.py\napp.py"
    diffs = [Passage(1, 1, "result", text)] * 1_000
    assert list(file.first_calls(diffs)) == []
    assert file.parsed == 100


def test_a_row_names_the_path_of_the_call_rather_than_that_of_its_result() -> None:
    result = {"results": [{"status": "success", "outputs": "diff --git a/lib/app.py b/lib/app.py\n"}]}
    found = NamedFile("app.py")
    texts = [call("read", {"path": "src/app.py"}), *passages(2, 1, "tool_results", result)]
    assert [passage.position for passage in found.first_calls(texts)] == [1, 2]
    assert found.paths == {1: "src/app.py"}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Read", {"file_path": "src/app.py", "limit": 5}, False),
        ("Edit", {"file_path": "src/app.py", "old_string": "a", "new_string": "file_path: x"}, True),
        ("MultiEdit", {"file_path": "src/app.py", "edits": [{"old_string": "a", "new_string": "b"}]}, True),
        ("Write", {"file_path": "src/app.py", "content": ""}, True),
        ("str_replace_editor", {"command": "view", "path": "src/app.py"}, False),
        ("str_replace_editor", {"command": "insert", "path": "src/app.py", "insert_line": 1}, True),
        ("delete_file", {"path": "src/app.py"}, True),
        ("apply_patch", {"input": PATCH}, True),
        ("Bash", {"command": "cat src/app.py > b.py"}, False),
        ("Bash", {"command": "cat b.py > src/app.py"}, True),
        ("Bash", {"command": "mv src/app.py src/b.py"}, True),
        ("Bash", {"command": "create src/app.py"}, True),
        ("exec", 'await tools.exec_command({cmd:"cat src/app.py"});', False),
        ("exec", 'await tools.exec_command({cmd:"rm src/app.py"});', True),
    ],
)
def test_edits_only_leaves_out_reads(name: str, arguments: object, *, expected: bool) -> None:
    passage = call(name, arguments)
    assert bool(list(NamedFile("src/app.py", edits_only=True).first_calls([passage]))) is expected


def test_edits_only_leaves_out_printed_diffs_and_marks_steps_that_show_the_file() -> None:
    diff = "diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n"
    window = "[File: /testbed/src/app.py (19 lines total)]\n1:x"
    found = NamedFile("src/app.py", edits_only=True)
    texts = [Passage(2, 1, "result", diff), Passage(4, 2, "result", window)]
    assert [passage.step for passage in found.first_calls(texts)] == [2]
    assert found.shown == {2}


def test_long_calls_count_if_only_edits_are_wanted() -> None:
    """Their lines may all look like arguments; a search ends after a limited number of them."""
    call = Passage(1, 1, "call", "write\npath: src/app.py\n" + "a1: b\n" * 10_000)
    found = NamedFile("src/app.py", edits_only=True)
    assert list(found.first_calls([call])) == [call]
    assert found.parsed > MAX_PARSED // 50
