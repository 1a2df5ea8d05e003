"""Which tools ask a person, according to their names: their results are the person's answers.

Agents name such tools differently: ``AskUserQuestion``, ``ask_user_question``, ``vscode_askQuestions``,
``request_user_input``, ``question``. When in doubt, a name counts as one of them.
"""

import re
from collections.abc import Iterable

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^a-z0-9]+")
_PERSON = "(?:user|human|person)"
_ASKED_FOR = f"(?:{_PERSON}|question|choice|confirm|approv|feedback|input|follow_?up|clarif)"
_TALKS = "(?:chat|confirm|contact|consult|wait|request|feedback|input|reply|review|approval|answer|talk)"
_ANSWER = "(?:assistance|feedback|input|reply|review|response|answer|confirm(?:ation)?|approv(?:al|e))"
"""A single one: several, as in ``get_user_reviews``, are records."""
_END = "(?:_(?:tool|request|prompt))?$"
_ASKS = re.compile(
    f"(?:^|_)(?:ask_?(?:(?:the|an?|for|multiple)_?){{0,2}}{_ASKED_FOR}"
    f"|prompt_?(?:the_?)?{_PERSON}|request_?{_PERSON}_?input"
    "|interactive_?feedback|elicit|human_?in_?the_?loop"
    f"|{_TALKS}_(?:with|for|from|by|to)_(?:(?:the|an?)_)?{_PERSON}(?![a-z])"
    f"|{_TALKS}_(?:(?:the|an?)_)?{_PERSON}(?:_?{_ANSWER})?{_END})"
)
_IS_ANSWER = re.compile(f"(?:^|_){_PERSON}_?{_ANSWER}{_END}")
"""The name of a person's answer, such as ``user_feedback``, as a part of a tool's name or of a server's."""
_RECORD_VERBS = frozenset(
    (
        *("add", "analyse", "analyze", "check", "count", "create", "delete", "edit", "evaluate", "export"),
        *("find", "list", "log", "parse", "process", "record", "remove", "sanitize", "save", "score"),
        *("search", "store", "update", "validate", "write"),
    )
)
"""Before such a name they mean a record of an answer, not the question."""
_WHOLE_NAMES = frozenset(("question", "questions", "ask", "clarify", "human"))
"""Names that are only recognised without anything but a server's name before them."""
_ENDS_OF_PLANS = frozenset(("exit_plan_mode", "exitplanmode", "plan_exit"))
"""Tools of Claude Code, Gemini CLI and OpenCode that ask a person to approve a plan. The result may be the
person's comment, or the plan as the person has edited it."""
_SHOW_PLANS = _ENDS_OF_PLANS | {"submit_plan", "present_plan", "approve_plan"}
"""Tools that may ask a person to approve a plan."""
_SAYS_PERSON = re.compile(f"{_PERSON}|interactive_?feedback")
_SERVER_ENDS = re.compile(r"__|[./:]")
_MAX_NAME = 200
"""Characters of the longest name that is read; a longer one counts as the name of such a tool. Providers take
names of 64 or 128 characters."""
MAX_NAMES = 100
"""Names of one step that are read, in 10 ms; if a step has more, all of them count as names of such tools."""


def asks_person(tool_name: str) -> bool:
    """Whether a tool with this name asks a person, a question or to approve a plan.

    >>> asks_person("mcp__helper__askUser"), asks_person("bash"), asks_person("task_user_list")
    (True, False, False)
    >>> asks_person("ExitPlanMode"), asks_person("plan_exit")
    (True, True)
    """
    if len(tool_name) > _MAX_NAME:
        return True
    parts = _SERVER_ENDS.split(tool_name)
    return (
        _ASKS.search(_words(tool_name)) is not None
        or any(map(_is_answer, map(_words, parts)))
        or parts[-1].lower() in _WHOLE_NAMES
        or _words(parts[-1]) in _SHOW_PLANS
    )


def asking_names(tool_names: Iterable[str]) -> set[str]:
    """The names of the tools of one step that ask a person."""
    names = set(tool_names)
    return names if len(names) > MAX_NAMES else set(filter(asks_person, names))


def waits_for_person(tool_name: str) -> bool:
    """Whether a person's answer ends a call of a tool with this name: to a question, or about a plan.

    Here, a name that is too long does not count, and a server's tool only if the name says that it asks a
    person: ``mcp__deepwiki__ask_question`` asks a model.

    >>> waits_for_person("ExitPlanMode"), waits_for_person("request_user_input"), waits_for_person("bash")
    (True, True, False)
    """
    if len(tool_name) > _MAX_NAME:
        return False
    *servers, name = _SERVER_ENDS.split(tool_name)
    if (words := _words(name)) in _SHOW_PLANS:
        return words in _ENDS_OF_PLANS
    return asks_person(tool_name) and (not any(servers) or _SAYS_PERSON.search(_words(tool_name)) is not None)


def _words(name: str) -> str:
    """The words of a name in lower case, with ``_`` between them."""
    return _SEPARATOR.sub("_", _HUMP.sub("_", name).lower())


def _is_answer(words: str) -> bool:
    return _IS_ANSWER.search(words) is not None and words.partition("_")[0] not in _RECORD_VERBS
