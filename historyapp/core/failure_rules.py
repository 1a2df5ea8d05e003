"""The named rules that find signs of failure in the output of a program.

A rule reads lines. :mod:`historyapp.core.failures` chooses the lines and the rules for a tool call. All
patterns take linear time, and long lines are cut before a pattern reads them.
"""

import re
from collections.abc import Callable, Sequence

from historyapp.core.commands import only_print
from historyapp.core.exit_codes import exit_code_in, runner_exit_code

Lines = Sequence[str]
"""Lines of an output without blank ones, without terminal sequences, each at most 300 characters."""
LAST_LINES = 6
"""The number of lines at the end of an output that rules search: most programs print their error last."""
_EXCEPTION_LINES = 12
"""The number of lines at the end that are searched for an exception: clean-up messages may follow it."""

_TIMED_OUT = re.compile(
    r"^(?:execution|command|process|script|the command)\b.{0,40}\btimed out\b", re.IGNORECASE
)
_EXCEPTION = re.compile(
    r"^[A-Za-z_][\w.]{2,100}(?:Error|Exception|Exit|Interrupt|Warning|NotFound|DoesNotExist)\b"
)
_RAISED = re.compile(r"^(?:[a-z_]\w{0,60}\.){0,9}[A-Z]\w{2,100}(?::|$)")
"""The line of an exception below a traceback, for exceptions of any name."""
_CRASHES = (
    "thread 'main' panicked", "panic: ", "goroutine 1 [running]", 'Exception in thread "main"',
    "Segmentation fault", "Unhandled exception", "Uncaught ", "Node.js v", "core dumped", "fatal error: ",
    "stack smashing", "+ FullyQualifiedErrorId", "PHP Fatal error", "Bus error",
)  # fmt: skip
_NODE = "Node.js v"
"""The beginning of the line with the version that Node.js prints below an uncaught error."""
_NODE_ERROR = re.compile(r"^(?:Uncaught )?[A-Z]\w{0,60}(?: \[\w{1,60}\])?: ")
"""The line of the error, above its stack trace: ``TypeError [ERR_UNKNOWN]: text``."""
_FAILED_TESTS = re.compile(
    r"^=+ .{0,80}\b[1-9][0-9]{0,5} (?:failed|errors?)\b.{0,80} in [0-9]"  # pytest
    r"|^!+ Interrupted: [1-9]|^=+ no tests ran in |^ImportError while loading conftest"
    r"|^[1-9][0-9]{0,5} (?:failed|errors?)\b.{0,80} in [0-9]"  # pytest -q
    r"|^FAILED \((?:failures|errors|unexpected)"  # unittest
    r"|^ *Tests:? +[1-9][0-9]{0,5} failed"  # jest, vitest
    r"|^ *Test (?:Suites:|Files) +[1-9][0-9]{0,5} failed"
    r"|^ *[1-9][0-9]{0,5} (?:fail|failing)$"  # bun, mocha
    r"|^[ℹ#] fail [1-9]"  # node
    r"|^FAIL(?:$|\t)|^--- FAIL: "  # go
    r"|^test result: FAILED"  # cargo
    r"|^[0-9]{1,6} examples, [1-9][0-9]{0,5} failure"  # rspec
    r"|^FAILURES!$|^BUILD FAIL(?:ED|URE)|^\[ERROR\] BUILD FAILURE|^(?:\[INFO\] )?BUILD FAILURE"
    r"|^FAIL:? |^ *[✗✘❌] *FAIL(?:ED|URE)\b"
    r"|^(?:Some|[1-9][0-9]{0,5}) (?:\w{1,20} ){0,3}tests? failed\b"
)
_PASSED_TESTS = re.compile(
    r"^=+ [1-9][0-9]{0,5} passed\b|^[1-9][0-9]{0,5} passed\b.{0,80} in [0-9]|^OK(?: \(|$)|^ *0 fail$"
    r"|^ *Tests:? +[1-9][0-9]{0,5} passed|^test result: ok|^PASS$|^[ℹ#] fail 0$"
)
_COMPILER = re.compile(
    r"^[^\s:]{1,200}:[0-9]{1,7}(?::[0-9]{1,7})?:? +(?:fatal )?error\b"
    r"|^[^\s(]{1,200}\([0-9]{1,7},[0-9]{1,7}\): error\b"
    r"|^[^\s:]{1,200}:[0-9]{1,7}:[0-9]{1,7} - error\b"
    r"|^error(?:\[E[0-9]{1,5}\])?: could not compile|^error\[E[0-9]{1,5}\]"
    r"|^[^\s:]{1,200}\.go:[0-9]{1,7}:[0-9]{1,7}: "  # go build, go vet
    r"|^- E999 |^ *Found [1-9][0-9]{0,5} errors?\b|✖ [1-9][0-9]{0,5} problems? \([1-9]"
)
_COMMAND = re.compile(
    r"^(?:error|ERROR|fatal|FATAL|E): |^npm (?:ERR!|error)|^error Command failed"
    r"|^make(?:\[[0-9]{1,3}\])?: \*\*\*|^ ! \[(?:remote )?rejected\]|^level=error|^Command failed"
    r"|^FAILED: |^\[error\] |^CMake Error|^ERROR! |^[Ff]ailed to [a-z]"
    r"|^Automatic merge failed|^CONFLICT \(|^patch: \*{4} |^The following paths are ignored by one of your"
)
_UNKNOWN_OPTION = re.compile(
    r"^(?:error: |[\w.-]{1,40}: (?:error: )?)(?:unknown|unrecognized|unexpected|invalid|no such|missing) "
    r"(?:option|argument|command|flag|subcommand|choice)",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"TLS handshake timeout|Could not resolve host|[Cc]onnection refused"
    r"|Connection (?:reset by peer|timed out)"
    r"|Temporary failure in name resolution|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|ECONNREFUSED"
    r"|dial tcp .{0,100}: |Network is unreachable"
)
_QUESTION = re.compile(r"\? [^\n✔›]{1,250}› [^✔]*$")
"""A prompt that still has its choices. Its lines after an answer begin with a check mark."""
_NPM_WARNING = re.compile(r"npm (?:warn|WARN|notice)\b")
_COMMAND_MARKS = ("ERROR task failed", "ERR_PNPM", "ELIFECYCLE", "pre-commit script failed")
_COMPLAINTS = (
    "invalid ", "unrecognized ", "illegal ", "cannot ", "can't ", "unknown ",
    "missing ",
    "failed ", "error: ", "fatal: ", "bad ", "unable ", "option requires", "unmatched ",
    "syntax error",
)  # fmt: skip
_MISSING = re.compile(
    r"No such file(?: or directory)?\b|command not found|: not found$|is not recognized as"
    r"|cannot open |cannot access |Permission denied|: Is a directory|Not a directory"
)
_MESSAGE_SOURCE = re.compile(r"^(?:/[a-z/]{1,20}/)?([\w.+-]{1,30}):(?:[0-9]{1,6}:)? ")
_SHELL_SYNTAX = re.compile(
    r"^(?:/[a-z/]{1,20}/)?(?:bash|sh|zsh|\(eval\)):(?: -c:)?(?: line)? ?[0-9]{1,6}: "
    r"(?:syntax error|unexpected|unterminated|no matches found|parse error|bad )"
)
_REFUSED = (
    "Your proposed edit has introduced", "Your changes have NOT been applied", "Ran into [Errno",
    "Invalid `", "No replacement was performed", "No match found", "File not found", "ERROR: ", "Error: ",
    "error: ", "Error executing", "Tool error", "Unknown tool", "Failed to ", "failed to ",
    "Error calling", "Exception: ", "String to replace not", "apply_patch verification failed",
    "Invalid Context", "<tool_use_error>", "File does not exist", "EISDIR: ", "ENOENT: ", "EACCES: ",
    "The arguments provided to the tool are invalid", "MCP error ", "InputValidationError",
)  # fmt: skip


def exit_code(lines: Lines, programs: Sequence[str]) -> str:
    """A code other than 0, where the runner of the program wrote it: at the beginning or the end."""
    if only_print(programs):  # the text may contain a code, and 1 means that the programs found nothing
        ends = (*lines[:1], *lines[1:][-1:])
        return next((line for line in ends if (runner_exit_code(line) or 0) not in (0, 1)), "")
    ends = (*lines[:LAST_LINES], *lines[LAST_LINES:][-LAST_LINES:])
    return next((line for line in ends if exit_code_in(line)), "")


def timeout(lines: Lines, programs: Sequence[str]) -> str:
    """The runner ended the program because it took too long."""
    return next((line for line in lines[-LAST_LINES:] if _TIMED_OUT.match(line)), "")


def traceback(lines: Lines, programs: Sequence[str]) -> str:
    """A Python program ended in an exception that nothing caught."""
    is_traced = any(line.startswith(("Traceback (most recent", '  File "')) for line in lines)
    if len(lines) > 1 and not is_traced:
        return ""
    ending = lines[-_EXCEPTION_LINES:]
    exception = next((line for line in reversed(ending) if _EXCEPTION.match(line)), "")
    if exception or not is_traced:
        return exception
    return lines[-1] if _RAISED.match(lines[-1]) or lines[-1].startswith('  File "') else ""


def crash(lines: Lines, programs: Sequence[str]) -> str:
    """A program in another language ended in an exception, a panic or a signal."""
    for index, line in enumerate(lines[-3 * LAST_LINES :], max(0, len(lines) - 3 * LAST_LINES)):
        if any(mark in line for mark in _CRASHES):
            is_version = line.startswith(_NODE)
            above = filter(_NODE_ERROR.match, reversed(lines[:index])) if is_version else iter(())
            return next(above, line)
    return ""


def failed_tests(lines: Lines, programs: Sequence[str]) -> str:
    """The summary of a test run counts failed tests, or a check says that it failed."""
    return next((line for line in lines[-5 * _EXCEPTION_LINES :] if _FAILED_TESTS.match(line)), "")


def compiler_error(lines: Lines, programs: Sequence[str]) -> str:
    """A compiler or a linter names a place with an error, or counts errors."""
    for line in lines:
        # Most lines have none of these, so the slower pattern is not tried.
        is_likely = "rror" in line or ".go:" in line or "✖" in line or "- E999" in line
        if is_likely and _COMPILER.search(line):
            return line
    return ""


def command_error(lines: Lines, programs: Sequence[str]) -> str:
    """The last lines of a program are an error message."""
    for line in lines[-LAST_LINES:]:
        if _COMMAND.match(line) or any(mark in line for mark in _COMMAND_MARKS):
            return line
    for line in lines[-3:]:
        if any(line.partition(f"{name}: ")[2].startswith(_COMPLAINTS) for name in programs):
            return line
    return ""


def unknown_option(lines: Lines, programs: Sequence[str]) -> str:
    """The first lines of a program say that it does not know an option or a command."""
    first = lines[:1] if only_print(programs) else lines[:LAST_LINES]
    return next((line for line in first if _UNKNOWN_OPTION.match(line)), "")


def network_error(lines: Lines, programs: Sequence[str]) -> str:
    """A program could not reach another computer."""
    return next((line for line in lines[-3:] if _NETWORK.search(line)), "")


def question(lines: Lines, programs: Sequence[str]) -> str:
    """A program asked a question that nobody answered, so it ended without doing its work."""
    last = next((line for line in reversed(lines[-LAST_LINES:]) if not _NPM_WARNING.match(line)), "")
    return last if _QUESTION.match(last) else ""


def shell_syntax(lines: Lines, programs: Sequence[str]) -> str:
    """A shell could not read the command line."""
    return next((line for line in lines[:LAST_LINES] if _SHELL_SYNTAX.match(line)), "")


def missing_file(lines: Lines, programs: Sequence[str]) -> str:
    """A shell, or a program that it ran, says that a file or a command is missing or not allowed."""
    for line in (*lines[:LAST_LINES], *lines[LAST_LINES:][-LAST_LINES:]):
        if _MISSING.search(line):
            source = _MESSAGE_SOURCE.match(line)
            program = source[1] if source else ""
            if program in ("bash", "sh", "zsh") or program in programs or len(lines) <= 3:
                return line
    return ""


def refused(lines: Lines, programs: Sequence[str]) -> str:
    """The first lines of a tool say that it refused or could not do what the call asks."""
    for line in lines[:2]:
        if line.startswith(_REFUSED):
            return line
    return ""


SIGNS = (
    "error", "fail", "exit status", "timed out", "timeout", 'file "', "panic", "xception", "no such file",
    "not ", "denied", "a directory", "fatal", "rejected", "refused", "***", "core dumped", "segmentation",
    "node.js v", "invalid ", "unrecognized ", "illegal ", "unknown ", "missing ", "bad ", "unable ",
    "option requires", "uncaught", "no tests ran", "goroutine", "process-done", "✖", "err!", "err_pnpm",
    "lifecycle", "unmatched ", ".go:", "reset by peer", "unreachable", "no matches found", "unexpected",
    "conflict (", "are ignored by", "can't ", "getaddrinfo", "dial tcp", "unterminated", "e: package ",
    "\u203a",
)  # fmt: skip
"""Each line that a rule finds contains, in lower case, one of these or an exit code."""
VIEWER_SIGNS = (
    "timed out", "no such file", "not found", "not recognized", "cannot ", "denied", "a directory",
    "syntax error", "unexpected", "no matches found",
    "unterminated", "parse error", "bad ", "unknown option", "unrecognized option", "invalid option",
)  # fmt: skip
"""As :data:`SIGNS`, for the rules of programs that only show text."""
_CODE_NOT_0 = re.compile(r"code\W{0,5}[1-9]")
Rule = Callable[[Lines, Sequence[str]], str]
PROGRAM_RULES: tuple[Rule, ...] = (
    exit_code, timeout, traceback, failed_tests, compiler_error, crash, unknown_option, command_error,
    missing_file, shell_syntax, network_error, refused, question,
)  # fmt: skip
VIEWER_RULES: tuple[Rule, ...] = (exit_code, timeout, missing_file, shell_syntax, unknown_option)
ENDING_RULES: tuple[Rule, ...] = (traceback, crash, command_error, network_error, question)
"""Rules that read only the last lines, which the last program of a command line wrote."""
RULES = {rule.__name__: (rule.__doc__ or "").strip() for rule in PROGRAM_RULES}
"""What each rule finds, by its name."""


def has_sign(text: str, signs: Sequence[str]) -> bool:
    """Whether a text may contain a failure. A quick check, because every result passes through it."""
    lower = text.lower()
    return any(map(lower.__contains__, signs)) or _CODE_NOT_0.search(lower) is not None


def after_passed_tests(lines: Lines) -> Lines:
    """The lines after the summary of the last test run that passed: errors above it belong to tests."""
    for index in range(len(lines) - 1, -1, -1):
        if _PASSED_TESTS.match(lines[index]):
            return lines[index + 1 :]
    return lines
