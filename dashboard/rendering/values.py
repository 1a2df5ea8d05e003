"""Arguments and results as people read them: commands as shell, edits as diffs, files as code, else JSON."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dashboard.rendering.blocks import TERMINAL, TREE, Block, Folder
from dashboard.rendering.code import language_of
from dashboard.rendering.patches import edit_diff
from dashboard.rendering.tree import tree
from historyapp.core.call_subjects import PATHS
from historyapp.core.json import depth_exceeds, is_larger
from historyapp.core.json_parts import COMPACT, PART, encoded_parts

MAX_FIELDS = 30
"""Objects with more fields are shown as one JSON text."""
SHORT = 160
"""The maximum number of characters of a one-line text that is shown beside its label."""
LONG_COMMAND = 1_000_000
"""Commands that are lists with more characters are shown as JSON."""
INDENTED_LEVELS, INDENTED_VALUES, INDENTED_CHARACTERS = 20, 50_000, 8_000_000
"""JSON with more levels, values or characters is written without indents. A value of 1.8 MB, with 150 lists
around its numbers, had 300 MB with them.
"""

_compact = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=COMPACT).encode
_SURROGATES = re.compile("[\ud800-\udfff]")
_COMMANDS = {"command", "cmd", "commands", "script", "bash_command"}
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit"}
EDITS = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("search", "replace"),
)
"""The arguments of an edit: the text before and after it."""
_PATHS = (*PATHS, "target_file")
_FILE_TEXTS = {"content", "contents", "file_text", "new_source", "code", "new_str", "new_string", "source"}
_PATCHES = {"patch", "diff", "unified_diff"}
_PATCH_BEGINNINGS = ("*** Begin Patch", "diff --git ", "--- a/", "Index: ")


@dataclass(frozen=True, slots=True)
class LabelledValue:
    """A short value as text beside its label, or a longer one as a block under it."""

    label: str
    text: str = ""
    block: Block | None = None


def argument_values(folder: Folder, key: str, arguments: Any) -> list[LabelledValue]:
    """The arguments of an action. The keys of its blocks begin with ``key``."""
    if isinstance(arguments, str):
        return [_value(folder, key, "", arguments, "")] if arguments else []
    if not isinstance(arguments, Mapping) or len(arguments) > MAX_FIELDS:
        return [LabelledValue("", block=folder.block(key, pretty_json(arguments), "json"))]
    path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    values: list[LabelledValue] = []
    edit_arguments: set[str] = set()
    for number, names in enumerate(_edit_names(arguments)):
        edit_arguments |= {*names}
        values.append(_edit(folder, f"{key}-edit{number}", arguments, names))
    for number, (name, value) in enumerate(arguments.items()):
        if name in edit_arguments:
            continue
        are_edits = name == "edits" and isinstance(value, list) and 0 < len(value) <= MAX_FIELDS
        if are_edits and all(isinstance(edit, Mapping) and any(_edit_names(edit)) for edit in value):
            for index, edit in enumerate(value):
                values.append(_edit(folder, f"{key}-{number}-{index}", edit, next(_edit_names(edit))))
        else:
            values.append(_value(folder, f"{key}-{number}", name, value, path))
    return values


def _edit_names(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for names in EDITS:
        if all(isinstance(arguments.get(name), str) for name in names):
            yield names


def _edit(folder: Folder, key: str, arguments: Mapping[str, Any], names: tuple[str, str]) -> LabelledValue:
    old, new = (arguments[name] for name in names)
    path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
    text = edit_diff(old, new, folder.work)
    return LabelledValue("edit", block=folder.block(key, text, "diff", "edit", code=language_of(path)))


def _value(folder: Folder, key: str, name: str, value: Any, path: str) -> LabelledValue:
    if name in _COMMANDS and _are_words(value):
        is_script = len(value) == 3 and value[0].endswith("sh") and value[1] in ("-c", "-lc")
        value = value[2] if is_script else shlex.join(value)  # the script of ``bash -lc SCRIPT``
    if isinstance(value, str):
        language = _language(name, value, path)
        if language == TERMINAL and len(value) <= SHORT and "\n" not in value.strip():
            return LabelledValue(name, value)
        return LabelledValue(name, block=folder.block(key, value, language, name))
    if not is_larger(value, SHORT) and len(short := json.dumps(value, ensure_ascii=False)) <= SHORT // 2:
        return LabelledValue(name, short)
    return LabelledValue(name, block=folder.block(key, pretty_json(value), "json", name))


def _are_words(value: Any) -> bool:
    if not isinstance(value, list) or not value or is_larger(value, LONG_COMMAND):
        return False
    return all(isinstance(word, str) for word in value)


def _language(name: str, text: str, path: str) -> str:
    if name in _PATCHES or text.startswith(_PATCH_BEGINNINGS):
        has_changes = any(f"\n{mark}" in f"\n{text}" for mark in ("+", "-", "@@"))
        return "diff" if has_changes else TERMINAL
    if name in _COMMANDS and text not in _EDITOR_COMMANDS:
        return "diff" if "*** Begin Patch" in text[:200] else "bash"
    if name in _FILE_TEXTS:
        return language_of(path) if path else ("python" if name == "code" else TERMINAL)
    return TERMINAL


def output_blocks(folder: Folder, key: str, outputs: Any) -> list[Block]:
    """The outputs of a result: text as it is, the texts of content parts, anything else as JSON."""
    if outputs is None or outputs == "":
        return []
    if isinstance(outputs, str):
        return [folder.block(key, outputs, _language("", outputs, ""))]
    parts = _part_texts(outputs)
    if parts is not None:
        return [folder.block(f"{key}-{number}", part) for number, part in enumerate(parts)]
    return [folder.block(key, pretty_json(outputs), "json")]


def _part_texts(outputs: Any) -> list[str] | None:
    """The texts of content parts; None when the value is not a list of content parts."""
    if not isinstance(outputs, list) or not 0 < len(outputs) <= MAX_FIELDS:
        return None
    texts = []
    for part in outputs:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            return None
        text = part.get("text")
        size = sum(map(len, encoded_parts(part))) if not isinstance(text, str) else 0
        texts.append(text if isinstance(text, str) else f"[{part['type']}, {size:,} bytes: see the raw JSON]")
    return texts


def content_text(content: Any) -> str:
    """The content of a message as one text."""
    if isinstance(content, str):
        return content
    parts = _part_texts(content)
    return "\n\n".join(parts) if parts is not None else pretty_json(content)


def tree_block(folder: Folder, key: str, value: Any, label: str = "") -> Block:
    """A JSON value as a tree. The values that the tree leaves out can be loaded as text."""
    block = folder.block(key, pretty_json(value), TREE, label, value=value)
    is_whole = tree(value, block.end)[1]
    end = len(block.text) if is_whole else min(block.end, len(block.text) - 1)
    folder.blocks[key] = replace(block, end=end)
    return folder.blocks[key]


def pretty_json(value: Any) -> str:
    """JSON over several lines, in its own characters; lone surrogates stay escaped. Large or deep values are
    in one line.
    """
    if _can_be_indented(value):
        text = json.dumps(value, indent=2, ensure_ascii=False)
    else:
        text = "".join(encoded_parts(value, _compact))
    if text.isascii():
        return text
    parts = (text[start : start + PART] for start in range(0, len(text), PART))  # others can run in between
    return "".join(_SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", part) for part in parts)


def _can_be_indented(value: Any) -> bool:
    if is_larger(value, INDENTED_CHARACTERS) or depth_exceeds(value, INDENTED_LEVELS):
        return False
    values, pending = 0, [value]
    while pending and values <= INDENTED_VALUES:
        item = pending.pop()
        if isinstance(item, (dict, list, tuple)):
            values += len(item)
            if values <= INDENTED_VALUES:
                pending.extend(item.values() if isinstance(item, dict) else item)
    return values <= INDENTED_VALUES
