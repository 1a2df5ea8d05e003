"""Files that command lines read, write and delete, and files of printed diffs."""

import shlex
from typing import Any

import pytest

from historyapp.core.command_files import (
    changes_folder,
    files_used,
    files_written,
    printed_patches,
    prints_own_changes,
)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cat > a.py << 'EOF'\nx > y\nEOF\npython a.py >> out.txt 2>&1", ("a.py", "out.txt")),
        ("cd /x && sed -i 's/a > b/c/' d/e.py", ("d/e.py",)),
        ("sed -i '' -e 's/a/b/' f.py", ("f.py",)),
        ("sed -Ei 's/x/y/' a.py b.py", ("a.py", "b.py")),
        ("echo hi | tee -a ./log.txt", ("log.txt",)),
        ("cp a.py b.py.orig; mv a.py lib/", ("b.py.orig", "lib/a.py")),
        ("if true; then echo 1 > z.txt; fi", ("z.txt",)),
        ("cat <<EOF > t.py\n'\nEOF", ("t.py",)),
        ('tee config.yml <<< "hello"', ("config.yml",)),
        ("tee out.txt < in.txt", ("out.txt",)),
        ("tee >(cat) x.py", ("x.py",)),
        ("tee >(grep $(cat a) b > c.txt); (tee d.py);cp e f.py", ("c.txt", "d.py", "f.py")),
        ("tee a.py < <(ls) b.py >&2 > c.txt", ("c.txt", "a.py", "b.py")),
        ("sed -i s/a/b/ foo.py 2> err.log", ("foo.py",)),
        ("sed -i -e s/a/b/ foo.py 2>/dev/null", ("foo.py",)),
        ("sed -i -e s/a/b/ -e s/c/d/ foo.py bar.py", ("foo.py", "bar.py")),
        ("sed -i -e s/a/b/ foo.py 2>&1", ("foo.py",)),
        ("cp a.py b.py 2>/dev/null", ("b.py",)),
        ("make 1> out.log 2>> err.log", ("out.log",)),
        ("echo 2 > out.txt; (echo 1 >b.txt)", ("out.txt", "b.txt")),
        ("sips -s format png a.svg --out m/a.png && pandoc a.md --output=a.html", ("m/a.png", "a.html")),
        ("git mv a.py b.py", ("b.py",)),
    ],
)
def test_a_command_line_names_the_files_that_it_writes(command: str, files: tuple[str, ...]) -> None:
    assert files_written(command) == files


@pytest.mark.parametrize(
    "command",
    [
        "ls 2>/dev/null > /dev/null 2>&1",
        "ls 2> errors.txt",
        "sed -n '1,3p' a.py",
        "sed -ne 's/i/j/p' a.py",
        "cp a b",
        "cp -r a b.d",
        "echo $x > $y",
        "cat > *.py",
        "[ 3 > 4 ]",
        "python -c 'a > b'",
        "find . | xargs sed -i s/a/b/",
        "# cat > x\necho 1 # > y.txt",
        "echo 'unmatched > x.txt",
        "echo a >&2",
        "cat > ..",
        "az list --output table",
    ],
)
def test_a_file_is_left_out_rather_than_guessed(command: str) -> None:
    assert files_written(command) == ()


@pytest.mark.parametrize(
    ("command", "uses"),
    [
        ("sed -n '1,180p' .github/a.yml", "read .github/a.yml"),
        ("sed -n -e 1p -e 3p a b", "read a, read b"),
        ("nl -ba -w 3 a.ts | sed -n '1,70p' && head -20 b.ts", "read a.ts, read b.ts"),
        ("tail -n 5 a 2>&1; /bin/cat -A b c", "read a, read b, read c"),
        ("cat a > b", "write b"),
        ("cat a 2>/dev/null; cat $x *.py", ""),
        ("cat a || echo none", ""),
        ("cat a; grep -E 'x||y' b", "read a"),
        ("rm a.txt; make > a.txt; rm a.txt", "write a.txt, delete a.txt"),
        ("sed -i s/a/b/ c.py; cat c.py; rm c.py", "write c.py, read c.py, delete c.py"),
        ("git rm --cached a; git rm b", "delete b"),
        ("rm -rf build/ a.py", "delete_if_known build, delete_if_known a.py"),
        ("mv a.py b.py", "write b.py, delete_if_known a.py"),
        ("mv a b", ""),
        ("xargs cat; find . -exec rm a +", ""),
    ],
)
def test_a_command_line_names_the_files_that_it_reads_and_deletes(command: str, uses: str) -> None:
    assert ", ".join(" ".join(used) for used in files_used(command)) == uses


def test_many_reads_do_not_hide_a_write() -> None:
    command = f"head -5 {' '.join(f'f{number}.py' for number in range(30))}; echo x > out.txt"
    assert files_written(command) == ("out.txt",)
    assert len(files_used(command)) == 21


def test_the_last_program_of_a_failed_command_may_have_written_nothing() -> None:
    assert files_written("cat > a.py; sed -i s/a/b/ c.py", has_failed=True) == ("a.py",)
    assert files_written("tee >(cat > a.py) c.py", has_failed=True) == ("a.py",)


@pytest.mark.parametrize(
    ("command", "is_own"),
    [
        ("git diff", True),
        ("cd /x && git diff --cached HEAD -- a.py", True),
        ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt", True),
        ("submit", True),
        ("git diff main", False),
        ("git show", False),
        ("cat a.diff", False),
    ],
)
def test_a_diff_with_another_version_may_have_changes_of_others(command: str, *, is_own: bool) -> None:
    assert prints_own_changes(command) is is_own


def test_a_printed_diff_has_files_and_lines() -> None:
    text = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1 @@\n-a\n-b\n+c\n"
    assert printed_patches(text + text.replace("x.py", "y.py")) == [("x.py", (1, 2)), ("y.py", (1, 2))]
    assert printed_patches(f"On branch main\n{text}") == []


def test_the_lines_of_a_step_are_parsed_once_for_their_folders_and_their_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = list[str]()

    class CountedLexer(shlex.shlex):
        def __init__(self, text: str, **options: Any) -> None:
            parsed.append(text)
            super().__init__(text, **options)

    monkeypatch.setattr(shlex, "shlex", CountedLexer)
    lines = [f"cd once; cat counted_{number}.py" for number in range(100)]
    assert all(map(changes_folder, lines))
    assert all(map(files_used, lines))
    assert parsed == lines
