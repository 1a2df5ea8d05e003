"""Finds one image of a step. A step may have many images, and a browser requests each of them."""

import re
from collections.abc import Collection, Iterator
from itertools import islice

from dashboard.rendering.blocks import Block, Folder
from dashboard.rendering.step import BETWEEN_STEPS, draw_calls, input_blocks
from historyapp.core import entries as core
from historyapp.core.episodes import group_episodes
from historyapp.core.hidden_texts import without_hidden_texts
from historyapp.models.history import History
from historyapp.models.long_rows import count_read
from historyapp.models.sql import each_live_entry
from historyapp.models.step_entries import MAX_ENTRIES

_INPUT, _RESULT = re.compile(r"input-(\d{1,9})-image\d{1,9}"), re.compile(r"result-(\d{1,9})-")


def find_image(history: History, number: int, key: str) -> Block | None:
    """The block with this key of an input or of a result of a step; None if there is none.

    Of an input, one entry is read. The entries of a step are read one after another up to the result, without
    the outputs of other calls.

    Args:
        number: of the step; 0 for inputs without a step.
    """
    folder = Folder()
    if found := _INPUT.fullmatch(key):
        _draw_input(history, int(found[1]), folder)
    elif number and (found := _RESULT.match(key)):
        _draw_call(history, number, int(found[1]), folder)
    return folder.blocks.get(key)


def _draw_input(history: History, position: int, folder: Folder) -> None:
    if history.visible.inputs:
        for entry in history.entries(after=position - 1, before=position + 1, kinds=BETWEEN_STEPS):
            input_blocks(folder, position, entry.core().body, is_closed=False)


def _draw_call(history: History, number: int, index: int, folder: Folder) -> None:
    number = history.resolve(number)
    row = history.row(number)
    entries = each_live_entry(history.lineage, core.STEP_KINDS, row.first_position, row.last_position)
    only = _with_result(islice(entries, MAX_ENTRIES), index)
    step = next(iter(group_episodes(only, number)))
    step = step if history.visible.inputs else without_hidden_texts(step)
    output = step.output
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    draw_calls(folder, step, calls[: index + 1], index)
    count_read(sum(len(block.text) for block in folder.blocks.values()))  # until now, a quarter was counted


def _with_result(entries: Iterator[core.Entry], index: int) -> Iterator[core.Entry]:
    """The entries of a step up to the result of the call at ``index``, without the outputs of other calls."""
    ids = tuple[str, ...]()
    for entry in entries:
        body = entry.body
        if isinstance(body, core.ModelOutput):
            ids = tuple(call.id for call in body.tool_calls[index : index + 1])
        elif isinstance(body, core.ToolResults):
            results = tuple(result if _may_answer(result, ids) else _empty(result) for result in body.results)
            entry = entry._replace(body=body.model_copy(update={"results": results}))
        yield entry
        if isinstance(body, core.ToolResults) and any(result.tool_call_id in ids for result in body.results):
            return


def _may_answer(result: core.ToolResult, ids: Collection[str]) -> bool:
    return result.tool_call_id is None or result.tool_call_id in ids


def _empty(result: core.ToolResult) -> core.ToolResult:
    return result.model_copy(update={"outputs": None})
