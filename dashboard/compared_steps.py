"""How the texts of two steps differ: the inputs before them, their tool calls, results and answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from dashboard.rendering.blocks import DIFF, IMAGE, Block, Folder
from dashboard.rendering.step import CALLS, load_inputs
from dashboard.rendering.values import MAX_FIELDS, content_text
from historyapp.core import entries as core
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.results import returned_text
from historyapp.core.text import preview
from historyapp.core.text_diff import MAX_COMPARED, MAX_STEP, is_partial, text_diff
from historyapp.models.history import History
from historyapp.models.sql import live_entries
from historyapp.models.step_entries import MAX_ENTRIES
from historyapp.services.step_pairs import PairPlace


class ComparedText(NamedTuple):
    """A text of both steps; empty if a step lacks it."""

    key: str
    label: str
    a: str
    b: str


class _RecordedCall(NamedTuple):
    name: str
    arguments: Any
    result: str


_NO_CALL = _RecordedCall("", {}, "")


class _RecordedStep(NamedTuple):
    inputs: str
    answer: str
    calls: list[_RecordedCall]
    all_calls: int


@dataclass(frozen=True, slots=True)
class ComparedSteps:
    """The diffs of two steps."""

    blocks: list[Block]
    """A diff of each text that differs."""
    only_ends: str
    """The labels of the texts that differ only in a line break at the end, joined by commas."""
    is_partial: bool
    """Whether a text is so long that only a part of it is compared."""
    left_out: int
    """Tool calls that are not compared, because a step has more than :data:`CALLS`."""
    too_long: str
    """The labels of the texts that differ but are not compared, because others have used up
    :data:`MAX_STEP`, joined by commas."""

    def block(self, key: str) -> Block | None:
        return next((block for block in self.blocks if block.key == key), None)


def compare_steps(a: History, b: History, place: PairPlace) -> ComparedSteps:
    """Compares a step of each run. Reads only these two steps and the inputs before them."""
    steps = [_recorded_step(*side) for side in ((a, place.a), (b, place.b))]
    folder, only_ends, too_long, partial = Folder(), list[str](), list[str](), False
    left = MAX_STEP
    for compared in _texts(*steps):
        if compared.a == compared.b:
            continue
        left -= sum(min(len(text), MAX_COMPARED) for text in (compared.a, compared.b))
        if left < 0:
            too_long.append(compared.label)
            continue
        partial |= is_partial(compared.a, compared.b)
        if diff := text_diff(compared.a, compared.b, folder.work):
            folder.block(compared.key, diff, DIFF, compared.label)
        else:
            only_ends.append(compared.label)
    left_out = max(step.all_calls for step in steps) - CALLS
    blocks = [*folder.blocks.values()]
    return ComparedSteps(blocks, ", ".join(only_ends), partial, max(0, left_out), ", ".join(too_long))


def _texts(a: _RecordedStep, b: _RecordedStep) -> Iterator[ComparedText]:
    yield ComparedText("input", "input", a.inputs, b.inputs)
    is_one = max(a.all_calls, b.all_calls) <= 1
    for index, (one, other) in enumerate(zip_longest(a.calls, b.calls, fillvalue=_NO_CALL)):
        prefix = "" if is_one else f"call {index + 1}: "
        yield ComparedText(f"tool-{index}", f"{prefix}tool", one.name, other.name)
        for number, (name, *texts) in enumerate(_arguments(one.arguments, other.arguments)):
            yield ComparedText(f"call-{index}-{number}", prefix + name, *texts)
        yield ComparedText(f"result-{index}", f"{prefix}result", one.result, other.result)
    yield ComparedText("answer", "answer", a.answer, b.answer)


def _arguments(a: Any, b: Any) -> Iterator[tuple[str, str, str]]:
    """The arguments of two calls by name, each with both texts; as one text if they have no names."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = list(dict.fromkeys([*a, *b]))
        if len(names) <= MAX_FIELDS:
            for name in names:
                yield preview(name, 100), _text(a.get(name, "")), _text(b.get(name, ""))
            return
    yield "arguments", _text(a), _text(b)


def _text(value: Any) -> str:
    return "" if value in (None, {}) else content_text(value)


def _recorded_step(history: History, number: int) -> _RecordedStep:
    *before, row = history.rows(number - 1, number) or [history.row(number)]
    after, end = row.first_position - 1, row.last_position + 1
    entries = live_entries(
        history.lineage, core.STEP_KINDS, after=after, before=end, limit=MAX_ENTRIES, metadata=()
    )
    step = next(iter(group_episodes(list(entries), number)))
    inputs = ""
    if row.input_preview:
        views = load_inputs(history, before[0].first_position if before else 0, row.first_position)
        blocks = [block for view in views for block in view.blocks if block.language != IMAGE]
        inputs = "\n\n".join(block.text for block in blocks)
    calls, all_calls = _calls(step)
    return _RecordedStep(inputs, step.output.text or "", calls, all_calls)


def _calls(step: Episode) -> tuple[list[_RecordedCall], int]:
    """The first tool calls with the texts of their results, and the number of all of them."""
    output = step.output
    calls: list[core.ToolCall | core.UseTool] = [*output.tool_calls]
    if output.use_tool and not calls:
        calls = [output.use_tool]
    answered = {call_id for received in step.received for call_id in received.calls}
    ids = [tool_call.id for tool_call in output.tool_calls] or [""]
    results = [
        _result(result) if id in answered else "" for id, result in zip(ids, step.turn.results, strict=False)
    ]
    paired = zip_longest(calls, results[: len(calls)], fillvalue="")
    recorded = [
        _RecordedCall(tool_call.name, tool_call.arguments, result)
        for tool_call, result in islice(paired, CALLS)
        if not isinstance(tool_call, str) and isinstance(result, str)
    ]
    return recorded, len(calls)


def _result(result: core.ToolResult) -> str:
    outputs = _text(result.outputs)
    if result.status == "success" and not (result.reason or result.error or result.feedback):
        return outputs
    reason = returned_text(result.model_copy(update={"outputs": None}))
    return "\n\n".join(filter(None, (reason, outputs)))
