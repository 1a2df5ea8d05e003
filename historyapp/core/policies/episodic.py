"""The newest steps as messages, older ones as one progress message (SEMANTICS A).

Filling stops at the first older step that does not fit. The newest steps are never dropped: where they alone
exceed the budget, the manifest says so.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from historyapp.core.budget import RequestMeter
from historyapp.core.entries import ToolResult
from historyapp.core.episodes import Episode, Status
from historyapp.core.formats.parts import are_parts
from historyapp.core.manifest import Context, Form, Message, Segment
from historyapp.core.policies.assembly import NO_ROOM, Assembly, Piece
from historyapp.core.policies.base import NO_ASK, Ask, Past
from historyapp.core.policies.units import late
from historyapp.core.rendering import progress_line
from historyapp.core.settings import SessionSettings
from historyapp.core.text import dump_json
from historyapp.core.tokens import TokenCounter

PROGRESS = (
    "## Progress on your Task so far\n"
    "Here is a summary of the steps that you have executed so far, use this as your consideration for "
    "determining the next action!\n"
)
NO_RESULT = "interrupted: no result was recorded"
OPEN: tuple[Status, ...] = ("in_flight", "abandoned")


class Episodic:
    name = "episodic"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, ask: Ask = NO_ASK
    ) -> Context:
        """The context and its manifest. A step in flight has its action in it, and no result yet."""
        assembly = Assembly.begin(self.name, past, settings.max_tokens, meter, ask)
        stream = past.episodes_newest_first()
        recent = list(islice(stream, max(0, settings.full_message_count)))[::-1]
        for episode in recent:
            told = list(step_messages(episode, newest=episode.number == past.steps))
            assembly.add(assembly.piece(episode, told))
        _add_inputs(assembly, past, _start_of(recent, past))
        if settings.max_tokens is not None and assembly.used > settings.max_tokens:
            newest = "newest step" if len(recent) == 1 else f"newest {len(recent)} steps"
            assembly.notes.append(
                f"The {newest} and what every request begins with take "
                f"{assembly.used} tokens: more than the budget of {settings.max_tokens}."
            )
        older = _progress(stream, assembly)
        assembly.miss(1, past.steps - len(recent) - older, "older than the first step that did not fit")
        return assembly.context()


def _add_inputs(assembly: Assembly, past: Past, after: int) -> None:
    """The inputs after a position, the newest first, until they alone take more than the budget."""
    taken = 0
    for entry in past.inputs_newest_first():
        if entry.position <= after:
            return
        piece = assembly.piece(entry)
        if assembly.max_tokens is not None and taken > assembly.max_tokens:
            assembly.notes.append(f"Inputs up to position {entry.position} are left out: {NO_ROOM}.")
            return
        assembly.add(piece)
        taken += piece.segment.tokens


def _progress(stream: Iterable[Episode], assembly: Assembly) -> int:
    """Adds the progress message with as many of the steps as fit; how many those are."""
    meter = assembly.meter
    used = assembly.used + meter.message(_progress_message([]))
    lines = _fill(stream, used, assembly.max_tokens, meter.text, progress_line)
    while lines:
        message = _progress_message([line for _, line, _ in lines])
        total = meter.message(message)
        if assembly.max_tokens is None or assembly.used + total <= assembly.max_tokens:
            heading = Segment(source="overhead", tokens=total - sum(tokens for _, _, tokens in lines))
            assembly.add(Piece(-1, [message], heading))
            for episode, _, tokens in lines:
                assembly.add(Piece(episode.first_position, [], _older_segment(episode, tokens)))
            break
        # What joins the lines has its price too.
        del lines[0]
    return len(lines)


def _progress_message(lines: list[str]) -> Message:
    return Message(role="system", content=PROGRESS + "\n\n".join(lines))


def compile_progress(past: Past, settings: SessionSettings, count: TokenCounter) -> str:
    """The history as text within ``settings.max_tokens``.

    Long forms for the newest ``full_message_count`` steps and where no summary exists, summaries for the
    rest. Oldest first, without what does not fit.
    """
    newest_full = past.steps - settings.full_message_count

    def line(episode: Episode) -> str:
        return progress_line(episode, full=episode.number > newest_full)

    fitted = _fill(past.episodes_newest_first(), 0, settings.max_tokens, count, line)
    return "\n\n".join(text for _, text, _ in fitted)


def _fill(
    stream: Iterable[Episode],
    used: int,
    max_tokens: int | None,
    count: TokenCounter,
    line: Callable[[Episode], str],
) -> list[tuple[Episode, str, int]]:
    """Steps that fit, with their line and its tokens, oldest first; stops at the first that does not."""
    fitted: list[tuple[Episode, str, int]] = []
    for episode in stream:
        text = line(episode)
        tokens = count(text)
        if max_tokens is not None and used + tokens > max_tokens:
            break
        used += tokens
        fitted.append((episode, text, tokens))
    return fitted[::-1]


def _start_of(recent: list[Episode], past: Past) -> int:
    """After which position inputs belong to the full messages: the first of them, or the newest step."""
    if recent:
        return recent[0].first_position
    newest = next(past.episodes_newest_first(), None)
    return newest.first_position if newest else 0


def step_messages(episode: Episode, *, newest: bool = True) -> Iterator[Message]:
    """A step as messages: the assistant's, then one for each result.

    Every call of a finished step is answered; that of a step in flight is not, while it is the newest one.
    """
    yield assistant_message(episode)
    yield from _results(episode, newest=newest)
    yield from late(episode)


def _results(episode: Episode, *, newest: bool) -> Iterator[Message]:
    if newest and episode.status == "in_flight" and not episode.results:
        return
    if not episode.output.tool_calls:
        if episode.result is not None:
            yield text_result(episode.result, episode)
        return
    answers = {result.tool_call_id: result for result in episode.results}
    whole = answers.get(None)
    told: set[str] = set()
    for index, call in enumerate(episode.output.tool_calls):
        result = answers.get(call.id) or (whole if index == 0 else None)
        if call.id in told:
            continue
        told.add(call.id)
        if result is not None:
            yield call_result(result, call.id)
        elif whole is not None:
            first = episode.output.tool_calls[0].id
            yield Message(role="tool", content=f"Answered together with {first}.", tool_call_id=call.id)
        elif not newest or episode.status != "in_flight":
            yield Message(role="tool", content=NO_RESULT, tool_call_id=call.id, is_error=True)


def assistant_message(episode: Episode) -> Message:
    """What the model said, as its provider gave it where that was recorded."""
    output, raw = episode.output, episode.output.raw_message
    calls: list[Any] | None = [call.model_dump() for call in output.tool_calls] or None
    if raw is not None:
        written = raw.get("tool_calls")
        return Message(
            role="assistant",
            content=raw.get("content") or output.text,
            tool_calls=written if isinstance(written, list) and (written or not calls) else calls,
            reasoning=output.reasoning,
        )
    content = output.text
    if not content and output.use_tool:
        content = dump_json({"thoughts": episode.thoughts, "use_tool": output.use_tool.model_dump()})
    return Message(role="assistant", content=content, tool_calls=calls, reasoning=output.reasoning)


def call_result(result: ToolResult, call_id: str) -> Message:
    """The answer to a provider tool call."""
    match result.status:
        case "success":
            content = result.outputs if are_parts(result.outputs) else str(result.outputs)
            return Message(role="tool", content=content, tool_call_id=call_id)
        case "interrupted_by_human":
            return Message(role="tool", content=result.feedback or "", tool_call_id=call_id, is_error=True)
        case _:
            details = str(result.error.repr) if result.error else ""
            text = f"{result.reason or ''}\n\n{details}".strip()
            return Message(role="tool", content=text, tool_call_id=call_id, is_error=True)


def text_result(result: ToolResult, episode: Episode) -> Message:
    """The answer to an action that the model wrote as text."""
    action = episode.action
    name = action.name if action else "The action"
    match result.status:
        case "success":
            outputs = str(result.outputs)
            shown = f"```\n{outputs}\n```" if "\n" in outputs else f"`{outputs}`"
            return Message(role="user", content=f"{name} returned: {shown}")
        case "interrupted_by_human":
            return Message(role="user", content=result.feedback or "")
        case _:
            return Message(role="user", content=f"{name} raised an error: ```\n{result.reason or ''}\n```")


def _older_segment(episode: Episode, tokens: int) -> Segment:
    form: Form = "full" if episode.summary is None else "summarised"
    return Segment(source="step", step=episode.number, form=form, tokens=tokens)


EPISODIC = Episodic()
