"""Failures in results that were reported as successes."""

import json
import time
from typing import Any

import pytest

from historyapp.core.entries import ToolResult
from historyapp.core.failure_rules import PROGRAM_RULES, RULES
from historyapp.core.failures import LikelyFailure, check_of, error_line, likely_failure

TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nValueError: no {}\n'
)
PYTEST = "tests/a.py F.\n=========== 1 failed, 1 passed in 0.12s ===========\n"


def failure_in(outputs: Any, command: str = "run | tail", name: str = "bash") -> LikelyFailure | None:
    arguments = {"command": command} if name == "bash" else {"path": command}
    return likely_failure(ToolResult(status="success", outputs=outputs), check_of(name, arguments))


def rule(outputs: Any, command: str = "run | tail", name: str = "bash") -> str:
    finding = failure_in(outputs, command, name)
    return finding.rule if finding else ""


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("fine\nProcess exited with code 3", "exit_code"),
        ("<returncode>-9</returncode>\n<output>\n</output>", "exit_code"),
        ({"exit_code": 101, "output": "boom"}, "exit_code"),
        ("\nEXECUTION TIMED OUT\n(Open file: n/a)\nbash-$", "timeout"),
        (f"begins\n{TRACEBACK}", "traceback"),
        ('  File "a.py", line 9, in f\n    g()\napp.errors.DeepError: no', "traceback"),
        (PYTEST, "failed_tests"),
        ("Ran 2 tests in 0.1s\n\nFAILED (errors=1)", "failed_tests"),
        (" Tests  5 failed | 220 passed (225)\n Time 3s", "failed_tests"),
        ("--- FAIL: TestA (0.01s)\nFAIL\texample.com/a\t0.1s", "failed_tests"),
        (" 3 pass\n 1 fail\nRan 4 tests", "failed_tests"),
        ("test result: FAILED. 1 passed; 1 failed", "failed_tests"),
        ("a.c:3:4: error: expected ';'\n1 error generated.", "compiler_error"),
        ("src/a.ts(572,32): error TS18046: 'x' is of type 'unknown'.", "compiler_error"),
        ("error[E0425]: cannot find value `x`", "compiler_error"),
        ("Found 2 errors in 1 file (checked 3 source files)", "compiler_error"),
        (
            "ImportError while loading conftest 'a.py'.\nE   ModuleNotFoundError: No module named 'b'",
            "failed_tests",
        ),
        ("collected 0 items\n===== no tests ran in 0.00s =====", "failed_tests"),
        ("ModuleNotFoundError: No module named 'django'", "traceback"),
        ("some texttail: invalid option -- z", "command_error"),
        ("goroutine 1 [running]:\nmain.main()", "crash"),
        ("begin\nmake: *** [Makefile:3: all] Error 2", "command_error"),
        ("To origin\n ! [remote rejected] main -> main\nerror: failed to push some refs", "command_error"),
        ("=== here\nbash: line 3: omp: command not found", "missing_file"),
        ("\x1b[31mfatal: not a git repository\x1b[0m", "command_error"),
        ("Your proposed edit has introduced new syntax error(s).", "refused"),
        (
            'Traceback (most recent call last):\n  File "a.py"\ndjango.core.ImproperlyConfigured: no',
            "traceback",
        ),
        ("# example.com/a\na/b.go:26:15: undefined: errors", "compiler_error"),
        ("✗ two tests failed\nSome SQLite tests failed!", "failed_tests"),
        ("patching file a.py\npatch: **** malformed patch at line 3", "command_error"),
        ("bash: -c: line 30: unexpected EOF while looking for matching `'", "shell_syntax"),
        ("(eval):1: no matches found: a/*.md\n0", "shell_syntax"),
        ('Post "https://example.com/": net/http: TLS handshake timeout', "network_error"),
        ("curl: (6) Could not resolve host: example.com", "network_error"),
        ("error: unknown option '--write'\nUsage: ultracite check [options]", "unknown_option"),
        ("CHECKS\nzsh:1: command not found: python", "missing_file"),
        ("\x1b[36m?\x1b[39m Use a `src/` folder? \x1b[90m›\x1b[39m No / Yes\nnpm warn exec a", "question"),
        ("? Turbopack? › No / Yes✔ Turbopack? … No\n? Import alias? › No / Yes", "question"),
    ],
)
def test_a_rule_finds_the_failure_in_its_name(outputs: Any, expected: str) -> None:
    assert rule(outputs) == expected


def test_each_rule_has_a_case_above_and_says_what_it_finds() -> None:
    marks = test_a_rule_finds_the_failure_in_its_name.pytestmark
    assert {expected for _, expected in marks[0].args[1]} == set(RULES)
    assert set(RULES) == {one.__name__ for one in PROGRAM_RULES}
    assert all(text.endswith(".") for text in RULES.values())
    assert max(map(len, RULES)) <= 40


@pytest.mark.parametrize(
    ("outputs", "command"),
    [
        ("all fine", "run"),
        (None, "run"),
        ("", "run"),
        ("Process exited with code 0\nOutput:\n", "run"),
        (TRACEBACK, "cat a.log"),
        (PYTEST, "gh run view 3 --log | tail"),
        ("error: no such table", "grep -rn error: src"),
        ("raise ValueError\nexit code 1 means trouble", "sed -n 1,9p a.py"),
        (f"{TRACEBACK}" + "went on\n" * 30, "run | tail -99"),
        ("error: Item 3 failed\n 1309 pass\n 0 fail\n", "bun test 2>&1 | tail"),
        ("docker not found\n---\n", "which docker; echo ---"),
        ("=========== 9 passed in 0.12s ===========", "pytest | tail"),
        ("? Turbopack? › No / Yes✔ Turbopack? … No\nSuccess! Created app", "npx create-next-app"),
        ("? Turbopack? › No / Yes✔ Turbopack? … No", "npx create-next-app"),
    ],
)
def test_output_without_a_failure_matches_no_rule(outputs: Any, command: str) -> None:
    assert rule(outputs, command) == ""


def test_an_exit_code_of_0_is_trusted_if_it_covers_all_commands() -> None:
    text = f"Exit code: 0\nOutput:\n{TRACEBACK}"
    assert rule(text, "cd a && python a.py") == ""
    assert rule(text, "python a.py | tail") == "traceback"


def test_an_exit_code_of_0_covers_only_the_last_command() -> None:
    assert rule(f"Exit code: 0\nOutput:\n{TRACEBACK}", "make; python a.py") == ""
    assert rule(f"Exit code: 0\nOutput:\n{PYTEST}done", "pytest; echo done") == "failed_tests"


def test_a_program_that_shows_text_fails_only_by_its_own_messages() -> None:
    line = "grep: src/Config.js: No such file or directory"
    assert failure_in(line, "grep -n x src/Config.js | head") == LikelyFailure("missing_file", line)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("\n<shellId: 51 completed with exit code 128>", "exit_code"),
        ("Process exited with code 2\nOutput:\n", "exit_code"),
        ("Process exited with code 1\nOutput:\n", ""),
        ("a log\nexit code: 3\nmore\nthe end", ""),
        ("error: unexpected argument '-A' found\nUsage: rtk read", "unknown_option"),
        ("bash: -c: line 1: unexpected EOF while looking for matching `''", "shell_syntax"),
    ],
)
def test_programs_that_show_text_fail_by_messages_of_their_runner_or_shell(
    outputs: str, expected: str
) -> None:
    """Their exit code 1 means that they found nothing."""
    assert rule(outputs, "grep -rn x src") == expected


def test_the_command_lines_in_a_script_count() -> None:
    script = r'await tools.exec_command({cmd:"sed -n 1,9p \"a.rs\"\ncargo check", workdir:"/a"})'
    result = ToolResult(status="success", outputs="Checking a\nerror: could not compile `a`")
    assert likely_failure(result, check_of("exec", script))
    assert likely_failure(result, check_of("exec", script.replace("cargo check", "cat a.log"))) is None


def test_other_tools_fail_in_their_first_lines() -> None:
    assert rule("Invalid `path` parameter: a.py", "a.py", "view") == "refused"
    assert rule(TRACEBACK, "a.py", "view") == ""
    assert rule("1  import os\n2  Error: none", "a.py", "view") == ""


@pytest.mark.parametrize("status", ["error", "skipped", "interrupted_by_human"])
def test_only_a_reported_success_can_be_a_likely_failure(status: Any) -> None:
    result = ToolResult(status=status, reason=TRACEBACK, outputs=TRACEBACK)
    assert likely_failure(result, check_of("bash", {"command": "run"})) is None


def test_the_line_of_a_failure_has_at_most_200_characters() -> None:
    assert failure_in(TRACEBACK) == LikelyFailure("traceback", "ValueError: no {}")
    long = failure_in(TRACEBACK.replace("no {}", "x" * 5000))
    assert long
    assert len(long.line) == 200


@pytest.mark.parametrize(
    ("returned", "line"),
    [
        ("Chunk ID: 1f\nWall time: 2 seconds\nProcess exited with code 1\nOutput:\nno rule\n", "no rule"),
        ("Chunk ID: 1f\nProcess exited with code 1\nOutput:\n", "exit code 1"),
        ("Process exited with code 2\nOutput:\n" + "ci.yml:39: uses: a\n" * 7, "exit code 2"),
        ("<returncode>1</returncode>\n<output>\n--- a\n</output>", "--- a"),
        ("<returncode>1</returncode>\n<output>\n</output>", "exit code 1"),
        ("Exit code 2\nmake: no rule", "make: no rule"),
        ("Exit code 1\nSwitched to branch 'main'\nfatal: no such remote\n", "fatal: no such remote"),
        ("Switched to branch 'main'\nfatal: no such remote\n", "Switched to branch 'main'"),
        ("Wall time: 2 seconds", "Wall time: 2 seconds"),
    ],
)
def test_the_line_of_a_reported_error_comes_from_the_program_if_it_wrote_one(
    returned: str, line: str
) -> None:
    assert error_line(ToolResult(status="error", reason=returned)) == line


NODE = """node:events:486
      throw er; // Unhandled 'error' event

Error: listen EPERM: operation not permitted 127.0.0.1
    at Server.setupListenHandle [as _listen2] (node:net:1926:21)
Emitted 'error' event on Server instance at:
  errno: -1,

Node.js v24.14.0"""
CONFLICT = (
    "Auto-merging a.ts\nCONFLICT (content): Merge conflict in a.ts\n"
    + "".join(f"{n}\n" for n in range(9))
    + "The stash entry is kept in case you need it again."
)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (NODE, "Error: listen EPERM: operation not permitted 127.0.0.1"),
        (NODE.replace("Error: listen", "TypeError [ERR_A]: no"), "TypeError [ERR_A]: no EPERM"),
        ("crashed\nNode.js v24.14.0", "Node.js v24.14.0"),
        (CONFLICT, "CONFLICT (content): Merge conflict in a.ts"),
        ("Artifacts: /tmp\nError: no run\nsee there", "Error: no run"),
        ("Tests: 12 passed, 0 failed\n\nERR something bad: boom", "ERR something bad: boom"),
        ("Run\n✓ handles failed requests\n✗ adds numbers failed", "✗ adds numbers failed"),
        ("ok 1 - failed logins\nnot ok 2 - failed sums", "not ok 2 - failed sums"),
        ("Linking...\n0 errors, no error\nld: undefined symbol _f", "ld: undefined symbol _f"),
        ("Linking...\n10 failed", "10 failed"),
    ],
)
def test_the_line_of_a_reported_error_says_what_failed_rather_than_how_the_output_ends(
    output: str, line: str
) -> None:
    result = ToolResult(status="error", reason=f"Process exited with code 1\nOutput:\n{output}")
    assert error_line(result).startswith(line)


def test_the_line_of_a_report_in_json_comes_from_the_program() -> None:
    report = json.dumps({"exit_code": 101, "output": "\nnote: x\nerror: no such binary\nsee --bin"})
    text = f"Script completed\nWall time 0.1 seconds\nOutput:\n{report}"
    failure = likely_failure(ToolResult(status="success", outputs=text), check_of("exec", "cargo run"))
    assert failure == ("exit_code", "error: no such binary")
    assert error_line(ToolResult(status="error", reason=text)) == "error: no such binary"
    assert error_line(ToolResult(status="error", reason='{"exit_code":1')) == '{"exit_code":1'


@pytest.mark.parametrize(("lines", "line"), [(1, "JOBS 0"), (7, "exit code 1"), (0, "exit code 1")])
def test_a_notice_that_an_output_was_cut_is_not_the_line_of_a_failure(lines: int, line: str) -> None:
    printed = "\n".join(f"JOBS {number}" for number in range(lines))
    notice = "Warning: truncated output (original token count: 1437)\nTotal output lines: 110"
    report = json.dumps({"exit_code": 1, "output": f"{notice}\n\n{printed}"})
    text = f"Script completed\nOutput:\n{report}"
    check = check_of("write_stdin", {"chars": "\u0003"})
    assert likely_failure(ToolResult(status="success", outputs=text), check) == ("exit_code", line)


def test_the_line_of_an_edit_that_swe_agent_refused_is_the_reason() -> None:
    text = "Your proposed edit has introduced new syntax error(s). Please read this.\r\n\r\nERRORS:\r\n"
    call = {"command": "edit 1:1\nx\nend_of_edit"}
    for name, arguments in (("shell", call), ("edit", {"replacement_text": "x"})):
        check = check_of(name, arguments)
        for outputs, line in (
            (
                f"{text}- E999 IndentationError: unexpected indent\r\n- F821 x",
                "E999 IndentationError: unexpected indent",
            ),
            (text, "Your proposed edit has introduced new syntax error(s). Please read this."),
        ):
            found = likely_failure(ToolResult(status="success", outputs=outputs), check)
            assert found == LikelyFailure("refused", line)


def test_a_long_report_in_json_is_not_read_for_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends look for the line under the write lock."""
    monkeypatch.setattr(
        "historyapp.core.failures.shell_output", lambda text: pytest.fail(f"{len(text)} characters")
    )
    report = json.dumps({"output": "x\n" * 100_000, "exit_code": 1})
    assert error_line(ToolResult(status="error", reason=f"Exit code 1\n{report}")).startswith('{"output"')


def test_warnings_of_npm_are_not_the_line_that_says_what_failed() -> None:
    warned = 'npm warn Unknown env config "store-dir".\n> app@0.1.0 build\n> tsc\n'
    line = "src/a.ts(6,33): error TS2307: Cannot find module 'b'"
    assert error_line(ToolResult(status="error", reason=f"{warned}{line}")) == line
    only = "(node:12) Warning: a"
    assert error_line(ToolResult(status="error", reason=only)) == only


def test_the_line_of_a_reported_error_is_the_first_that_is_not_blank() -> None:
    assert error_line(ToolResult(status="error", reason="\n\n no \x1b such\nfile")) == "no \x1b such"


def test_the_line_excludes_the_tag_around_an_error_of_claude_code() -> None:
    reason = "<tool_use_error>File does not exist.</tool_use_error>"
    assert error_line(ToolResult(status="error", reason=reason)) == "File does not exist."


@pytest.mark.parametrize(
    "text",
    ["Traceback (most recent call last):\n", "= 1 failed", "1 ", "\x1b[", "a:1:1: ", "E: " * 99 + "\n"],
)
def test_long_outputs_take_no_longer_than_short_ones(text: str) -> None:
    started = time.thread_time()
    rule(text * 200_000)
    assert time.thread_time() - started < 0.3
