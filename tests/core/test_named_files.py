"""A call names a file by its path, or by the beginning or the end of it."""

import pytest

from historyapp.core.named_files import is_named, names_file, text_in_calls
from historyapp.core.searchable import passages

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


def call_text(name: str, arguments: object) -> str:
    body = {"tool_calls": [{"name": name, "arguments": arguments}]}
    (passage,) = passages(1, 1, "model_output", body)
    return passage.text


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
    text = call_text("exec", arguments)
    assert names_file(text, file) is expected
    assert text_in_calls(file) in text


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
    assert names_file(call_text("edit", arguments), "src/app.py") is expected
