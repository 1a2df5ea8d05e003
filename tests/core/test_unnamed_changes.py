"""Command lines that may change files which they do not name."""

import pytest

from historyapp.core.command_files import files_used
from historyapp.core.unnamed_changes import changes_further_files


@pytest.mark.parametrize(
    "command",
    [
        "git stash",
        "git stash pop",
        "git rebase main",
        "git merge topic",
        "cd app && git pull 2>&1 | tail -3",
        "git reset --hard HEAD~1",
        "git clean -fd",
        "git apply fix.diff",
        "git checkout main",
        "git checkout -- .",
        "git checkout -- a.py src",
        "git restore *.py",
        "git -C app rm a.py",
        "git rm -r docs",
        "rm *.log",
        'rm "$OUT"',
        "rm -rf build",
        "mv src lib",
        "mv *.py lib/",
        "cp -r a b",
        "sed -i s/a/b/ *.py",
        "sed -i -e s/a/b/ -e s/c/d/ *.py",
        "sed -i -e s/a/b/ *.py a.py",
        "perl -pi -e s/a/b/ a.py",
        "perl -i.bak -pe s/a/b/ a.py",
        "patch -p1 < fix.diff",
        "find . -name a.py -delete",
        "find . -name a.py -exec rm {} +",
        "find . -name a.py -exec sudo rm {} +",
        "ls | xargs sed -i s/a/b/",
        "ls | xargs -0 -n 1 rm",
        "git ls-files -d | xargs git rm",
        "git diff --name-only | xargs git checkout --",
        "find . -name a.py -exec git rm -q {} +",
    ],
)
def test_a_command_may_change_files_that_it_does_not_name(command: str) -> None:
    assert changes_further_files(command)


@pytest.mark.parametrize(
    "command",
    [
        "git stash list",
        "git stash show -p",
        "git merge-base a b",
        "git reset HEAD a.py",
        "git clean -n",
        "git apply --check fix.diff",
        "git checkout",
        "git checkout -b topic",
        "git switch -c topic",
        "git checkout HEAD~1 -- src/a.py",
        "git restore -s HEAD a.py b.py",
        "git restore --staged .",
        "git rm --cached -r docs",
        "git commit -m 'git stash'",
        "git log -- a.py",
        "rm a.py b.py",
        "rm -f a.py 2>/dev/null",
        "rm -rf /tmp/work",
        "mv a.py b.py",
        "mv a.py b.py lib",
        "mv a.py lib/",
        "cp a b",
        "sed -i s/a/b/ a.py",
        "sed -i -e s/a/b/ -e s/c/d/ a.py",
        "sed s/a/b/ *.py",
        "perl -Ilib -Mstrict t/a.t",
        "patch --dry-run -p1 < fix.diff",
        "find . -name '*.py' | xargs grep a",
        "find . -exec grep rm {} +",
        "ls | xargs grep rm",
        "ls | xargs git add",
        "ls | xargs git rm --cached",
        "xargs",
        "grep -rn 'rm -rf *' .",
        "echo git stash",
        "# git stash",
    ],
)
def test_a_command_that_names_its_files_or_changes_none_is_left_out(command: str) -> None:
    assert not changes_further_files(command)


def test_the_last_program_of_a_failed_command_counts_only_after_a_conflict() -> None:
    assert changes_further_files("git rebase main", has_failed=True)
    assert changes_further_files("rm *.log; make", has_failed=True)
    assert not changes_further_files("rm *.log", has_failed=True)
    assert not changes_further_files("git checkout main", has_failed=True)


@pytest.mark.parametrize(
    ("command", "uses"),
    [
        ("git checkout -- a.py src", "write a.py"),
        ("git checkout HEAD~1 -- src/a.py", "write src/a.py"),
        ("git checkout a.py", ""),
        ("git restore -s HEAD a.py b.py", "write a.py, write b.py"),
        ("git restore --staged a.py", ""),
        ("mv a.py b.py lib", "write lib/a.py, write lib/b.py, delete_if_known a.py, delete_if_known b.py"),
        (
            "git mv a.py b.py lib/",
            "write lib/a.py, write lib/b.py, delete_if_known a.py, delete_if_known b.py",
        ),
        ("mv a.py src lib", ""),
    ],
)
def test_what_git_brings_back_and_several_moved_files_are_named(command: str, uses: str) -> None:
    assert ", ".join(" ".join(used) for used in files_used(command)) == uses
