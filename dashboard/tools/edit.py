"""Changes of files as diffs: edits, whole files, and patches. An invalid patch is shown unchanged."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dashboard.rendering.blocks import DIFF, Block
from dashboard.rendering.code import language_of
from dashboard.rendering.patches import FilePatch, Patch, edit_diff, head_of_edit, parse_patch
from dashboard.rendering.values import EDITS
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView, answer_blocks, further_values
from historyapp.core.call_subjects import PATHS
from historyapp.core.json import is_larger
from historyapp.core.shell_output import shell_output
from historyapp.core.text import MAX_READ, preview

_TEXTS = ("content", "contents", "file_text", "new_source", "insert_text", "new_str", "replacement_text")
_PAIRED = tuple([name for pair in EDITS for name in pair])
_LINES = ("start_line", "insert_line")
_PATCHES = ("patch", "diff", "unified_diff", "input", "command", "cmd", "changes", "script")
_EDITOR_COMMANDS = ("create", "insert", "str_replace", "write", "edit")
_MAX_FILES = 20
"""The maximum number of edits or files of one call that are shown as diffs of their own."""
_SHORT = 400
"""The maximum number of characters of an answer that is open. Longer answers usually repeat the file."""


def fits(tool_call: RecordedCall) -> bool:
    return bool(
        _patch(tool_call) or next(_pairs(tool_call), None) or _changes(tool_call) or _new_text(tool_call)
    )


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    card = Card()
    names: tuple[str, ...] = PATHS
    if patch := _patch(tool_call) or _changes(tool_call):
        card.request, names = patch_blocks(patch, make.request, "patch"), (*PATHS, *_PATCHES)
    elif tool_call.diff and _shows_pairs(tool_call):
        card.request, names = _recorded_blocks(tool_call, make), (*PATHS, *_TEXTS, *_PAIRED, "edits")
    elif pairs := list(_pairs(tool_call)):
        card.request = [_pair_block(tool_call, make, number, pair) for number, pair in enumerate(pairs)]
        names = (*PATHS, *_PAIRED, "edits")
    else:
        path = tool_call.text_of(*PATHS)
        line = next(
            (tool_call.fields[name] for name in _LINES if type(tool_call.fields.get(name)) is int), None
        )
        first = 1 if line is None else max(1, line + ("insert_line" in tool_call.fields))
        text = make.request("text", _new_text(tool_call), language_of(path), first_line=min(first, 10**7))
        card.title, card.request, names = preview(path), [text], (*PATHS, *_TEXTS)
    shown = (*names, "command") if tool_call.fields.get("command") in _EDITOR_COMMANDS else names
    card.values = further_values(tool_call, make, *shown)
    output = shell_output(tool_call.text)  # of a patch that was applied in a shell
    if output.exit_code is not None:
        card.badge, card.is_bad = f"exit {output.exit_code}", output.exit_code != 0
    card.response = answer_blocks(tool_call, make, lambda text, key: _answer(tool_call, make, text, key))
    return card


def _shows_pairs(tool_call: RecordedCall) -> bool:
    """Whether the recorded diff contains all lines of the replaced texts and of the new ones."""
    shown = {line[1:] for line in tool_call.diff.splitlines()}
    return all(shown.issuperset(text.splitlines()) for pair in _pairs(tool_call) for text in pair)


def _recorded_blocks(tool_call: RecordedCall, make: CallBlocks) -> list[Block]:
    """The diff that the agent recorded, and the whole new text of a file below it."""
    path = tool_call.text_of(*PATHS)
    code = language_of(path)
    blocks = [make.request("diff", tool_call.diff, DIFF, preview(path), code=code)]
    if not next(_pairs(tool_call), None) and (new := _new_text(tool_call)):
        blocks.append(make.request("text", new, code, label="Whole new text", is_aside=True))
    return blocks


def patch_blocks(patch: Patch, make: Callable[..., Block], key: str) -> list[Block]:
    """The files of a patch as diffs, and the lines outside of them as text."""
    blocks = []
    for number, file in enumerate(patch.files[:_MAX_FILES]):
        label = f"{preview(file.path)} · {file.note}" if file.note else preview(file.path)
        blocks.append(make(f"{key}{number}", file.text, DIFF, label, code=language_of(file.path)))
    others = [*patch.others, *(f"{file.path}\n{file.text}" for file in patch.files[_MAX_FILES:])]
    return [*blocks, make(f"{key}-text", "\n".join(others))] if others else blocks


def _patch(tool_call: RecordedCall) -> Patch | None:
    if isinstance(tool_call.arguments, str):
        return parse_patch(tool_call.arguments)
    for value in (tool_call.fields.get(name) for name in _PATCHES):
        text = value[-1] if isinstance(value, list) and value else value
        if isinstance(text, str) and (patch := parse_patch(text)):
            return patch
    return None


def _changes(tool_call: RecordedCall) -> Patch | None:
    """The changes of Codex: an object with the path of each file, or a list of objects with paths."""
    changes = tool_call.fields.get("changes")
    if isinstance(changes, list):
        items = [(change.get("path"), change) for change in changes if isinstance(change, Mapping)]
        changes = {path: change for path, change in items if isinstance(path, str)} if items else None
    if not isinstance(changes, Mapping) or not changes or is_larger(changes, MAX_READ):
        return None
    files = [_changed(str(path), change) for path, change in changes.items() if isinstance(change, Mapping)]
    is_whole = len(files) == len(changes) and all(file is not None for file in files)
    return Patch([file for file in files if file is not None]) if is_whole else None


def _changed(path: str, change: Mapping[str, Any]) -> FilePatch | None:
    diff, kind = change.get("unified_diff") or change.get("diff"), change.get("type") or change.get("kind")
    content = change.get("content")
    if isinstance(diff, str):
        moved = change.get("move_path")
        return FilePatch(path, f"moved to {moved}" if moved else "", diff.removesuffix("\n").split("\n"))
    if isinstance(content, str):
        mark, note = ("-", "deleted") if kind == "delete" else ("+", "new file")
        return FilePatch(path, note, [f"{mark}{line}" for line in content.splitlines()])
    return None


def _pairs(tool_call: RecordedCall) -> Iterator[tuple[str, str]]:
    """The old and new texts of a call's edits; none if one of several edits has another shape."""
    edits = tool_call.fields.get("edits")
    if not isinstance(edits, list):
        yield from _pairs_in(tool_call.fields)
    elif 0 < len(edits) <= _MAX_FILES:
        pairs = [next(_pairs_in(edit), None) if isinstance(edit, Mapping) else None for edit in edits]
        if all(pairs):
            yield from (pair for pair in pairs if pair)


def _pairs_in(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for old, new in EDITS:
        if isinstance(fields.get(old), str) and isinstance(fields.get(new), str):
            yield fields[old], fields[new]


def _pair_block(tool_call: RecordedCall, make: CallBlocks, number: int, pair: tuple[str, str]) -> Block:
    """An edit as a block, with line numbers if the recorded diff has them, or if the answer contains the
    changed lines with their numbers."""
    old, new = pair
    path = tool_call.text_of(*PATHS)
    text = edit_diff(old, new, make.folder.work)
    if head := head_of_edit(text, tool_call.diff) if number == 0 else "":
        return make.request("edit0", f"{head}\n{text}", DIFF, preview(path), code=language_of(path))
    shown = tool_call.numbered if new else None
    at = f"\n{shown.code}\n".find(f"\n{new.strip(chr(10))}\n") if shown else -1
    if shown and at >= 0:
        blank = len(new) - len(new.lstrip("\n"))
        line = shown.first_line + shown.code.count("\n", 0, at) - blank
        if line:
            text = f"@@ -{line},{len(old.splitlines())} +{line},{len(new.splitlines())} @@\n{text}"
    return make.request(f"edit{number}", text, DIFF, preview(path), code=language_of(path))


def _new_text(tool_call: RecordedCall) -> str:
    """The text of a file, or of lines, that a call writes. Empty if it names no file or lines."""
    is_named = tool_call.text_of(*PATHS) or any(name in tool_call.fields for name in _LINES)
    return tool_call.text_of(*_TEXTS) if is_named else ""


def _answer(tool_call: RecordedCall, make: CallBlocks, text: str, key: str) -> list[Block]:
    if patch := parse_patch(text):
        return patch_blocks(patch, make.response, key or "0")
    is_long = len(text) > _SHORT and not tool_call.looks_failed
    return [make.response(key, text, label="Tool result" if is_long else "", is_aside=is_long)]


EDIT = ToolView(name="edit", fits=fits, draw=draw)
