"""The subject of a tool call: its kind, its target in one line, and the files that it names.

Agents name their tools differently, so the shape of the arguments is checked before the name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from historyapp.core.file_tools import use_of_file
from historyapp.core.json import parse_lenient
from historyapp.core.text import clean, preview

Kind = Literal["shell", "read", "edit", "search", "web", "plan", "agent", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_SHELLS = {"bash", "sh", "zsh", "cmd", "powershell", "pwsh", "/bin/bash", "/bin/sh", "/bin/zsh"}
_EDITOR_COMMANDS: Mapping[str, Kind] = {
    "view": "read",
    "create": "edit",
    "str_replace": "edit",
    "insert": "edit",
    "undo_edit": "edit",
    "delete": "edit",
    "rename": "edit",
}
"""The commands of file editors with a ``command``, for example ``str_replace_editor``, and their kinds."""
PATHS = ("file_path", "path", "notebook_path", "filename", "file_name", "file", "filePath", "absolute_path")
"""The arguments that name a file."""
FOLDERS = ("workdir", "cwd", "working_directory", "dir")
"""The arguments that name the folder in which a command runs."""
COMMANDS = ("command", "cmd", "script", "code", "chars")
"""The arguments that hold a command line or a script."""
_CHANGES = frozenset(
    (
        "old_string",
        "old_str",
        "new_string",
        "new_str",
        "edits",
        "patch",
        "diff",
        "changes",
        "file_text",
        "replacement_text",
    )
)
_CHANGES_WITH_PATH = frozenset(("content", "contents", "new_source", "insert_text"))
_PATTERNS = ("pattern", "regex", "query", "queries", "search_term", "glob_pattern")
_LISTS_OF_TASKS = ("todos", "plan", "task_list", "taskId", "thought")
_PLANNERS = {
    "todowrite",
    "todoread",
    "taskcreate",
    "taskupdate",
    "tasklist",
    "taskget",
    "task_tracker",
    "update_plan",
    "think",
}
AGENTS = {"task", "agent", "spawn_agent", "delegate", "new_task", "subagent"}
"""Tools that start a sub-agent, in lower case."""
TASKS = ("prompt", "task", "message")
"""The arguments that hold the task of a sub-agent."""
_RUNNERS = {
    "bash",
    "shell",
    "exec",
    "exec_command",
    "terminal",
    "execute_bash",
    "run",
    "write_stdin",
    "python",
}
PATCHED_FILE = (
    "*** Update File: ",
    "*** Add File: ",
    "*** Delete File: ",
    "*** Move to: ",
    "+++ b/",
    "--- a/",
)
"""The beginnings of lines in a patch that name a file."""
MAX_PATCH = 200_000
"""Characters of a patch that are split into lines."""
_MAX_TASKS = 1_000
"""Tasks of a list that are counted."""
_WRITERS = {"create", "edit"}
"""Tools of SWE-agent that change a file; ``edit`` changes the file that was opened last."""
_OPENERS = {"create", "open"}
"""Tools and commands of SWE-agent after which ``edit`` changes the file that they name."""
_FINDER = "find_file"
"""A tool of SWE-agent that looks for a file of a name."""
_MAX_FILES = 20
_SCRIPTED = re.compile(r'\bcmd: ?"((?:[^"\\]|\\.)*+)"')
"""A command line that a script of an agent runs: ``tools.exec_command({cmd:"ls"})``."""
_SPACES = r"(?:[ \t]|\\\r?\n){1,200}+"
"""Between words, also at the end of a line that is continued."""
_VARIABLES = re.compile(
    rf"(?:env{_SPACES})?(?:[A-Za-z_]\w{{0,99}}="
    rf"(?:\"[^\"`]{{0,2000}}\"|'[^']{{0,2000}}'|[^\s\"'`();&|<>\\]{{0,2000}}){_SPACES})+"
    r"(?![A-Za-z_]\w{0,99}=)(?=[^\s&|;#\\])"
)
"""The variables before a program: ``env A=1 B="x y" ``. Not before the end of the line or an operator."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ACTED_ON = ("text", "selector", "ref", "key")
"""What an action of a browser or a computer is about."""
_TOOLS = "tools."
SCRIPTS = ("const ", "let ", "await ", "text(", "//")
"""The beginnings of scripts for Codex's tools. They are JavaScript, not command lines."""
_MAX_SCRIPT = 4000
_ESCAPED_PATCH = "*** Begin Patch\\n"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')


class CallSubject(NamedTuple):
    """What one tool call is about."""

    kind: Kind
    target: str
    """The command without variables before its program, or the file, pattern, address or task, at most 200
    characters. Empty if there is none."""
    files: tuple[str, ...] = ()
    """The files that it reads or changes, as the call names them, at most 20. Empty for commands."""


def call_subject(name: str, arguments: Any) -> CallSubject:
    """What a call of the tool ``name`` is about.

    Args:
        arguments: an object, or the text that the model wrote.
    """
    if isinstance(arguments, Mapping):
        return _object_subject(name, arguments)
    text = arguments if isinstance(arguments, str) else ""
    if files := _patched_files(text):
        return CallSubject("edit", preview(files[0]), files)
    kind = _subject_by_name(name.lower())
    return CallSubject(kind, preview(_script_target(text) if kind == "shell" else text))


def command_line(arguments: Any) -> str:
    """The command line of a shell call. For a script that runs commands: these commands, one per line."""
    text = _command(arguments) if isinstance(arguments, Mapping) else arguments
    if not isinstance(text, str):
        return ""
    script = text[:_MAX_SCRIPT]
    commands = [match[1] for match in _SCRIPTED.finditer(script)] if _TOOLS in script else []
    return "\n".join(commands).replace("\\n", "\n").replace('\\"', '"') if commands else text


def folder_of_call(arguments: Any) -> str:
    """The folder in which a command runs, as the call names it; otherwise empty."""
    return _text(arguments, FOLDERS) if isinstance(arguments, Mapping) else ""


def _script_target(script: str) -> str:
    """What a script of an agent does: its commands, otherwise its first call of a tool."""
    line = command_line(script)
    if line != script or _TOOLS not in script[:_MAX_SCRIPT] or not script.startswith(SCRIPTS):
        return line
    return script[script.index(_TOOLS) + len(_TOOLS) :]


def opened_file(name: str, arguments: Any) -> str:
    """The file that a call of SWE-agent opens, which its later ``edit`` changes; empty for other calls."""
    if not isinstance(arguments, Mapping):
        return ""
    if name in _OPENERS:
        return preview(_text(arguments, PATHS))
    if name != "shell":
        return ""
    first, _, words = _command(arguments).partition("\n")[0].partition(" ")
    return _first_word(words) if first in _OPENERS else ""


def _editor_subject(command: str) -> CallSubject | None:
    """What a command of SWE-agent does to a file; None for commands of a shell.

    ``create a.py``, ``str_replace_editor view a.py``, or ``edit 1:3`` above new lines and ``end_of_edit``.
    """
    line = command.partition("\n")[0]
    program, _, words = line.partition(" ")
    if program == "create" and words.strip():
        return _file_subject("edit", _first_word(words))
    if program == "edit" and command.rstrip().endswith("\nend_of_edit"):
        return CallSubject("edit", preview(line))
    if program == "str_replace_editor":
        action, _, words = words.strip().partition(" ")
        kind, path = _EDITOR_COMMANDS.get(action), _first_word(words)
        return _file_subject(kind, path) if kind and path else None
    return None


def _first_word(words: str) -> str:
    return preview(next(iter(words.split(maxsplit=1)), "").strip("\"'"))


def _object_subject(written: str, arguments: Mapping[str, Any]) -> CallSubject:
    name = written.lower()
    path, pattern = _text(arguments, PATHS), _text(arguments, _PATTERNS)
    editor_kind = _EDITOR_COMMANDS.get(str(arguments.get("command"))) if path else None
    if editor_kind:
        return _file_subject(editor_kind, path)
    names = arguments.keys()
    if not _CHANGES.isdisjoint(names) or (path and not _CHANGES_WITH_PATH.isdisjoint(names)):
        files = _changed_files(arguments, path)
        return CallSubject("edit", preview(files[0] if files else ""), files)
    if name in _WRITERS:
        return _file_subject("edit", path) if path else CallSubject("edit", "")
    if name in AGENTS or "subagent_type" in arguments:
        return CallSubject("agent", preview(_text(arguments, ("description", "title", *TASKS))))
    if name in _PLANNERS or not names.isdisjoint(_LISTS_OF_TASKS):
        return CallSubject("plan", preview(_plan_target(arguments)))
    if command := _command(arguments):
        if files := _patched_files(command):
            return CallSubject("edit", preview(files[0]), files)
        return _editor_subject(command) or CallSubject(
            "shell", preview(_without_variables(command_line(command)))
        )
    if url := _text(arguments, ("url", "uri", "href")):
        return CallSubject("web", preview(url))
    if pattern:
        return CallSubject("web" if "web" in name or "browse" in name else "search", preview(pattern))
    if path:
        return _subject_of_file(written, path)  # with its capital letters, as in getFile
    if cell := _text(arguments, ("cell_id",)):  # Codex waits for a script that still runs
        return CallSubject("other", preview(f"cell {cell}"))
    return CallSubject(_subject_by_name(name), preview(_other_target(arguments)))


def _without_variables(command: str) -> str:
    """The command line without the variables before its program, such as ``env PATH=/a:/b``.

    A variable whose value comes from another command is kept.
    """
    first = command.partition(" ")[0]
    match = _VARIABLES.match(command[:_MAX_SCRIPT]) if first == "env" or "=" in first else None
    return command[match.end() :] if match else command


def _other_target(arguments: Mapping[str, Any]) -> str:
    """An action with its text, otherwise the first text that is not a UUID, or the first one."""
    if action := _text(arguments, ("action",)):
        return f"{action} {_text(arguments, _ACTED_ON)}".rstrip()
    texts = list(_texts(arguments.values()))
    words = (text for text in texts if not _UUID.fullmatch(text))
    return next(words, "") or next(iter(texts), "") or _first_question(arguments)


def _first_question(arguments: Mapping[str, Any]) -> str:
    """The first question to a person, in the shape of Claude Code and Codex."""
    questions = arguments.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    return _text(first, ("question",)) if isinstance(first, Mapping) else ""


def _subject_of_file(name: str, path: str) -> CallSubject:
    if name == _FINDER:
        return CallSubject("search", preview(path))
    use = use_of_file(name)
    return _file_subject("edit" if use == "delete" else use, path)


def _file_subject(kind: Kind, path: str) -> CallSubject:
    return CallSubject(kind, preview(path), (preview(path),))


def _subject_by_name(name: str) -> Kind:
    """The kind of a tool whose arguments do not show it."""
    if name in _RUNNERS:
        return "shell"
    if name in _PLANNERS:
        return "plan"
    if name == "apply_patch":  # its input was redacted, or is no patch
        return "edit"
    return "agent" if name in AGENTS else "other"


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str) and value)


def _text(arguments: Mapping[str, Any], keys: Iterable[str]) -> str:
    """The first argument in ``keys`` that is a text, or a list that begins with one."""
    for key in keys:  # a loop: generators take three times as long, and every append waits for this
        if key not in arguments:
            continue
        value = arguments[key]
        if isinstance(value, list) and value:
            value = value[0]
        if value and isinstance(value, str):
            return value
    return ""


def _command(arguments: Mapping[str, Any]) -> str:
    """The command line. ``["bash", "-lc", "ls"]`` is ``ls``."""
    for key in COMMANDS:
        if key not in arguments:
            continue
        value = arguments[key]
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            in_shell = len(value) > 2 and value[0].lower() in _SHELLS and value[1].startswith("-")
            return str(value[-1]) if in_shell else " ".join(value)
    return ""


def _plan_target(arguments: Mapping[str, Any]) -> str:
    """The progress of a list of tasks and its current task. Without such a list: the first text."""
    tasks = next((arguments[key] for key in _LISTS_OF_TASKS if isinstance(arguments.get(key), list)), None)
    if not tasks:
        if isinstance(task := arguments.get("taskId"), str | int) and _text(arguments, ("status",)):
            return f"task {task} {_text(arguments, ('status',)).replace('_', ' ')}"
        texts = (
            arguments.get(key) for key in ("subject", "thought", "plan", "status", "explanation", "taskId")
        )
        text = next(_texts(texts), "").strip()
        return text.partition("\n")[0].lstrip("# ") if text.startswith("#") else text
    tasks = [task for task in tasks[:_MAX_TASKS] if isinstance(task, Mapping)]
    done = sum(task.get("status") in ("completed", "done") for task in tasks)
    current: Mapping[str, Any] = next((task for task in tasks if task.get("status") == "in_progress"), {})
    task_text = _text(current, ("activeForm", "content", "step", "title"))
    return f"{done} of {len(tasks)} done" + (f" · {task_text}" if task_text else "")


def _changed_files(arguments: Mapping[str, Any], path: str) -> tuple[str, ...]:
    if path:
        return (preview(path),)
    changes = arguments.get("changes")
    if isinstance(changes, list):
        paths = (_text(change, PATHS) for change in changes[:_MAX_FILES] if isinstance(change, Mapping))
        return tuple([preview(file) for file in paths if file])
    if isinstance(changes, Mapping):
        return tuple([preview(str(file)) for file in list(changes)[:_MAX_FILES]])
    return _patched_files(_text(arguments, ("patch", "diff", "input")))


def patch_lines(text: str) -> list[str]:
    """The lines of the first :data:`MAX_PATCH` characters. In a string of a script, ``\\n`` ends a line."""
    return patch_text(text[:MAX_PATCH]).splitlines()


def patch_text(text: str) -> str:
    """The patch with line feeds at the ends of its lines. Of a script, only the patch in its strings."""
    if _ESCAPED_PATCH not in text:
        return text
    try:
        strings = [clean(parse_lenient(string)) for string in _patch_strings(text)]
    except ValueError:
        strings = []
    return "\n".join(strings) or text.replace("\\n", "\n")


def _patch_strings(script: str) -> Iterator[str]:
    """The strings of a script that begin with a patch, in quotes."""
    start = script.find(f'"{_ESCAPED_PATCH}')
    while start >= 0 and (string := _STRING.match(script, start)):
        yield string[0]
        start = script.find(f'"{_ESCAPED_PATCH}', string.end())


def _patched_files(text: str) -> tuple[str, ...]:
    """The files that a patch changes; empty if the text is not a patch."""
    if "*** Begin Patch" not in text and not text.startswith(("--- ", "diff --git ")):
        return ()
    paths: dict[str, None] = {}
    for line in patch_lines(text):
        prefix = next((prefix for prefix in PATCHED_FILE if line.startswith(prefix)), "")
        if prefix and len(paths) < _MAX_FILES:
            paths[preview(line.removeprefix(prefix))] = None
    return tuple(paths)
