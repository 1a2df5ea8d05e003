"""One step as the session page shows it: what was said before it, what was thought, done and came back."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dashboard.rendering.blocks import MARKDOWN, TERMINAL, Block, Folder
from dashboard.rendering.values import Field, argument_fields, content_text, output_blocks, pretty_json
from historyapp.core import entries as core
from historyapp.core.episodes import Episode as Step
from historyapp.core.episodes import group_episodes
from historyapp.core.usage import Usage, usage_of
from historyapp.models import Entry, Episode, Summary
from historyapp.models.history import History

BETWEEN_STEPS = [b.kind_name() for b in core.BODIES if not b.in_step and b is not core.Rewind]
INPUTS = 20
"""The newest so many inputs before a step are shown with it."""
CALLS = 20
"""So many parallel calls are shown at once."""
SUMMARIES = 10
"""So many summaries that cover one step are shown, the narrowest first."""
ENTRIES = 2_000
"""So many entries of one step are read."""


@dataclass(frozen=True, slots=True)
class InputView:
    """Something that was said to the agent, or noted, between two steps."""

    label: str
    block: Block
    entry: Entry

    @property
    def is_said(self) -> bool:
        """Whether a person or another program said it; the rest is folded away."""
        return self.entry.kind in core.INPUT_KINDS


@dataclass(frozen=True, slots=True)
class ResultView:
    """What came back for one call."""

    status: str
    blocks: list[Block]
    tool_name: str = ""
    call: str = ""
    """The id of the call that the result names."""


@dataclass(frozen=True, slots=True)
class CallView:
    """One of the step's calls with its result; ``result`` is None while, or because, none was recorded."""

    name: str
    id: str
    fields: list[Field]
    result: ResultView | None


@dataclass(frozen=True, slots=True)
class SummaryView:
    """What stands for the step, alone or with others."""

    summary: Summary
    block: Block
    is_earlier: bool
    """Whether a newer one of the same steps has taken its place."""


@dataclass(frozen=True, slots=True)
class StepView:
    """Everything that the step's panel shows."""

    row: Episode
    inputs: list[InputView]
    inputs_after: list[InputView]
    """Said since the newest step; empty for the others, whose next step shows them."""
    thought: Block | None
    text: Block | None
    calls: list[CallView]
    first_call: int
    all_calls: int
    overall: list[Block]
    """Remarks on the results as a whole."""
    late_results: list[ResultView]
    """Results that answer none of the step's calls."""
    more_late: int
    """How many more there are: repetitions, and those after the first :data:`CALLS`."""
    reviews: list[tuple[core.Review, list[Field]]]
    summaries: list[SummaryView]
    model: str
    usage: Usage
    entries: list[Entry]
    blocks: dict[str, Block] = field(repr=False)

    @property
    def last_call(self) -> int:
        return self.first_call + len(self.calls)


def load_step(history: History, number: int, first_call: int = 0) -> StepView:
    """The step with at most :data:`CALLS` of its calls, in four queries.

    Raises:
        NotFound: when there is no such live step.
    """
    number = history.resolve(number)
    *before, row = history.rows(number - 1, number)
    earlier = _said(history, before[0].first_position if before else 0, row.first_position)
    later = _said(history, row.first_position, None) if number == history.steps else []
    after, before_next = row.first_position - 1, row.last_position + 1
    entries = list(history.entries(after=after, before=before_next, kinds=core.STEP_KINDS, limit=ENTRIES))
    covering = Summary.objects.covering(history.session, history.lineage, row.first_position, history.as_of)
    return _view(row, (earlier, later), entries, covering, first_call)


def load_inputs(history: History) -> list[InputView]:
    """What was said to an agent that has not taken a step yet."""
    folder = Folder()
    return [_input(folder, entry) for entry in _said(history, 0, None)]


def raw_blocks(entries: Iterable[Entry]) -> list[Block]:
    """Entries as the log holds them, in JSON."""
    folder = Folder()
    return [
        folder.block(
            f"raw-{entry.position}", pretty_json(_raw(entry)), "json", f"{entry.position} {entry.kind}"
        )
        for entry in entries
    ]


def _raw(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "kind": entry.kind,
        "created_at": entry.created_at.isoformat(),
        "tokens": entry.tokens,
        **entry.body,
        "metadata": entry.metadata,
    }


def _said(history: History, after: int, before: int | None) -> list[Entry]:
    newest = history.entries(after=after, before=before, kinds=BETWEEN_STEPS, newest_first=True, limit=INPUTS)
    return list(newest)[::-1]


def _view(
    row: Episode,
    said: tuple[list[Entry], list[Entry]],
    entries: list[Entry],
    covering: list[Summary],
    first_call: int,
) -> StepView:
    folder = Folder()
    episode = next(iter(group_episodes((entry.core() for entry in entries), row.number)))
    output, metadata = episode.output, entries[0].metadata
    calls: list[core.ToolCall | core.UseTool] = [*output.tool_calls]
    if output.use_tool and not calls:
        calls = [output.use_tool]
    inputs = [_input(folder, entry) for entry in said[0]]
    thought = folder.block("thought", episode.thoughts) if episode.thoughts else None
    text = folder.block("text", output.text, TERMINAL if calls else MARKDOWN) if output.text else None
    answered, late = _answered(episode), episode.late
    return StepView(
        row=row,
        inputs=inputs,
        thought=thought,
        text=text if not calls or output.text != episode.thoughts else None,
        calls=[
            _call(folder, index, calls[index], answered.get(index))
            for index in range(first_call, min(len(calls), first_call + CALLS))
        ],
        first_call=first_call,
        all_calls=len(calls),
        overall=[folder.block(f"overall-{n}", text) for n, text in enumerate(episode.overall[:CALLS])],
        late_results=[_result(folder, f"late-{n}", result) for n, result in enumerate(late[:CALLS])],
        more_late=max(0, row.unpaired - len(late[:CALLS])),
        reviews=[_review(folder, n, review) for n, review in enumerate(episode.reviews[:CALLS])],
        summaries=_summaries(folder, covering),
        inputs_after=[_input(folder, entry) for entry in said[1]],
        model=str(metadata.get("model") or ""),
        usage=usage_of(metadata),
        entries=entries,
        blocks=folder.blocks,
    )


def _answered(step: Step) -> dict[int, core.ToolResult]:
    """The results by the places of their calls; calls without a result are not in it."""
    answered = {call for received in step.received for call in received.calls}
    ids = [call.id for call in step.output.tool_calls] or [""]
    results = zip(ids, step.turn.results, strict=False)
    return {n: result for n, (id, result) in enumerate(results) if id in answered}


def _summaries(folder: Folder, covering: list[Summary]) -> list[SummaryView]:
    """The narrowest first, and of the same steps the newest."""
    covering = sorted(covering, key=lambda summary: summary.pk, reverse=True)
    covering.sort(key=lambda summary: summary.last_step - summary.first_step)
    views: list[SummaryView] = []
    for number, summary in enumerate(covering[:SUMMARIES]):
        steps = (summary.first_step, summary.last_step)
        earlier = any((v.summary.first_step, v.summary.last_step) == steps for v in views)
        views.append(SummaryView(summary, folder.block(f"summary-{number}", summary.text), earlier))
    return views


def _input(folder: Folder, entry: Entry) -> InputView:
    body = entry.core().body
    return InputView(
        body.heading, folder.block(f"input-{entry.position}", content_text(body.message_content)), entry
    )


def _call(
    folder: Folder, index: int, call: core.ToolCall | core.UseTool, result: core.ToolResult | None
) -> CallView:
    fields = argument_fields(folder, f"call-{index}", call.arguments)
    id = call.id if isinstance(call, core.ToolCall) else ""
    return CallView(call.name, id, fields, _result(folder, f"result-{index}", result) if result else None)


def _result(folder: Folder, key: str, result: core.ToolResult) -> ResultView:
    said = {"reason": result.reason, "feedback": result.feedback}
    blocks = [folder.block(f"{key}-{name}", text) for name, text in said.items() if text]
    blocks += output_blocks(folder, key, result.outputs)
    if result.error and result.error.repr != result.reason:
        blocks.append(folder.block(f"{key}-error", result.error.repr, label=result.error.exception_type))
    return ResultView(result.status, blocks, result.tool_name or "", result.tool_call_id or "")


def _review(folder: Folder, number: int, review: core.Review) -> tuple[core.Review, list[Field]]:
    said = {"analysis": review.analysis, "supervision": review.supervision}
    fields = argument_fields(folder, f"review-{number}", {k: v for k, v in said.items() if v is not None})
    return review, fields
