"""Which tools ask a person, according to their names: their results are the person's answers.

Agents name such tools differently: ``AskUserQuestion``, ``ask_user_question``, ``vscode_askQuestions``,
``request_user_input``, ``question``. When in doubt, a name counts as one of them.
"""

import re

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATOR = re.compile(r"[^a-z0-9]+")
_ASKS = re.compile(
    r"(?:^|_)(?:ask_?(?:(?:the|an?|for|multiple)_?){0,2}"
    r"(?:user|human|person|question|choice|confirm|approv|feedback|input|follow_?up|clarif)"
    r"|prompt_?(?:the_?)?(?:user|human|person)|(?:request_?)?(?:user|human)_?input"
    r"|interactive_?feedback|elicit|human_?in_?the_?loop"
    r"|(?:chat|confirm|contact|consult|wait|request|feedback|input|reply|review|approval|answer|talk)"
    r"_(?:(?:with|for|from|by|to|the|an?)_){0,2}(?:user|human|person)(?![a-z])"
    r"|(?:user|human|person)_?(?:assistance|feedback|input|reply|review|response|answer|confirm|approv))"
)
_WHOLE_NAMES = frozenset(("question", "questions", "ask", "clarify", "human"))
"""Names that are only recognised without anything but a server's name before them."""
_SERVER_ENDS = re.compile(r"__|[./:]")
_MAX_NAME = 1_000
"""Characters of a name that are read, at its end."""


def asks_person(tool_name: str) -> bool:
    """Whether a tool with this name asks a person.

    >>> asks_person("mcp__helper__askUser"), asks_person("bash"), asks_person("task_user_list")
    (True, False, False)
    """
    read = tool_name[-_MAX_NAME:]
    if _ASKS.search(_SEPARATOR.sub("_", _HUMP.sub("_", read).lower())):
        return True
    return _SERVER_ENDS.split(read)[-1].lower() in _WHOLE_NAMES
