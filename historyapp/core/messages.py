"""The episodic history as neutral messages, exactly as the earlier systems wrote it.

The newest steps are messages, older ones are in one progress message. Filling stops at the first older
step that does not fit. The newest steps are never dropped. If they alone exceed the budget, the manifest
says so. Several calls, late results and remarks, which the earlier systems did not have, are appended.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from historyapp.core.content import are_parts, plain_text
from historyapp.core.conversation import ANSWERED_TOGETHER, NO_RESULT, InputMessage, late_text
from historyapp.core.entries import StoredModel, ToolResult
from historyapp.core.episodes import Episode
from historyapp.core.formats.base import OVERHEAD, PRIMING
from historyapp.core.json import dump_json, json_text
from historyapp.core.manifest import LeftOut, Manifest, Segment
from historyapp.core.policies.base import Past, Unit, unit_position
from historyapp.core.progress import PROGRESS, fill, form_of, progress_line, write_newest
from historyapp.core.results import further_parts
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import TokenCounter

Role = Literal["system", "user", "assistant", "tool"]
OLDER = "older than the first step that did not fit"


class Message(StoredModel):
    """One provider-neutral message."""

    role: Role
    content: Any
    """Text, or a list of parts as in ``model_input``."""
    tool_calls: list[Any] | None = None
    """As in the raw message if there is one, otherwise ``{id, name, arguments}``."""
    tool_call_id: str | None = None
    is_error: bool = False
    reasoning: list[Any] = Field(default_factory=list)


@dataclass(slots=True)
class EpisodicMessages:
    """Messages while they are collected, with their manifest."""

    max_tokens: int | None
    count: TokenCounter
    messages: list[Message] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    used: int = PRIMING

    def add(self, messages: list[Message], **segment: Any) -> None:
        """Appends messages even if they exceed the budget."""
        self.messages += messages
        self.account(sum(message_tokens(message, self.count) for message in messages), **segment)

    def account(self, tokens: int, **segment: Any) -> None:
        self.segments.append(Segment(tokens=tokens, **segment))
        self.used += tokens

    @property
    def manifest(self) -> Manifest:
        return Manifest(
            policy="episodic",
            max_tokens=self.max_tokens,
            tokens=self.used,
            segments=[*self.segments, Segment(source="overhead", tokens=PRIMING)],
            left_out=self.left_out,
            notes=self.notes,
        )


def episodic_messages(past: Past, settings: SessionSettings, count: TokenCounter) -> EpisodicMessages:
    """The messages and their manifest. A step in flight has its action and no result."""
    history = EpisodicMessages(settings.budget(), count)
    for source, text in (("system", past.instruction), ("notebook", past.notebook)):
        if text and text.strip():
            history.account(count(text) + OVERHEAD, source=source)
    episodes = past.episodes_newest_first()
    recent = list(islice(episodes, max(0, settings.full_message_count)))[::-1]
    _add_newest(history, past, recent)
    if history.max_tokens is not None and history.used > history.max_tokens:
        newest = "newest step" if len(recent) == 1 else f"newest {len(recent)} steps"
        history.notes.append(
            f"The {newest} and the fixed parts take "
            f"{history.used} tokens: more than the budget of {history.max_tokens}."
        )
    progress_steps = _add_progress(history, episodes)
    if (left_out_steps := past.steps - len(recent) - progress_steps) > 0:
        history.left_out.append(LeftOut(first_step=1, last_step=left_out_steps, reason=OLDER))
    return history


def _add_newest(history: EpisodicMessages, past: Past, recent: list[Episode]) -> None:
    """The newest steps and the inputs after the first of them, in the order of their positions."""
    # Inputs after the first of the newest steps belong to the messages.
    first = recent[0] if recent else next(past.episodes_newest_first(), None)
    start = first.first_position if first else 0
    inputs = list(_inputs(history, past, start))
    units: list[Unit] = [*recent, *inputs]
    for unit in sorted(units, key=unit_position):
        if isinstance(unit, InputMessage):
            role: Role = "system" if unit.is_instruction else "user"
            history.add([Message(role=role, content=unit.content)], source="input", position=unit.position)
        else:
            messages = list(step_messages(unit, newest=unit.number == past.steps))
            history.add(messages, source="step", step=unit.number)
            # For an action that was written as text, the inherited message has the reason of an error only.
            failed = any(result.error and result.status == "error" for result in unit.results)
            if failed and not unit.output.tool_calls:
                reason = "the details of its error; the inherited text gives the reason only"
                history.left_out.append(LeftOut(first_step=unit.number, last_step=unit.number, reason=reason))
    # The earlier systems left out inputs from before the newest steps.
    newest_missing = next(iter(past.inputs_newest_first(inputs[-1].position if inputs else None)), None)
    if newest_missing is not None:
        reason = (
            "does not fit the budget" if newest_missing.position > start else "older than the newest steps"
        )
        history.left_out.append(LeftOut(position=1, last_position=newest_missing.position, reason=reason))


def _inputs(history: EpisodicMessages, past: Past, start: int) -> Iterator[InputMessage]:
    """The inputs after a position, the newest first, until they alone take more than the budget."""
    used = 0
    for message in past.inputs_newest_first():
        if message.position <= start or (history.max_tokens is not None and used > history.max_tokens):
            return
        used += history.count(plain_text(message.content)) + OVERHEAD
        yield message


def _add_progress(history: EpisodicMessages, episodes: Iterable[Episode]) -> int:
    """Puts the progress message first, with as many of the steps as fit. Returns their number."""
    used = history.used + message_tokens(_progress_message([]), history.count)
    lines = fill(episodes, used, history.max_tokens, history.count, progress_line)

    def write(texts: Sequence[str]) -> tuple[tuple[Message, int], int]:
        message = _progress_message(texts)
        tokens = message_tokens(message, history.count)
        return (message, tokens), tokens

    limit = None if history.max_tokens is None else history.max_tokens - history.used
    fitted = write_newest(lines, limit, write)
    if fitted is None:
        return 0
    included, (message, total) = fitted
    history.messages.insert(0, message)
    heading = total - sum(tokens for _, _, tokens in included)
    steps = [
        Segment(source="step", step=episode.number, form=form_of(episode), tokens=tokens)
        for episode, _, tokens in included
    ]
    index = sum(segment.source in ("system", "notebook") for segment in history.segments)
    history.segments[index:index] = [Segment(source="overhead", tokens=heading), *steps]
    history.used += total
    return len(included)


def _progress_message(lines: Sequence[str]) -> Message:
    return Message(role="system", content=PROGRESS + "\n\n".join(lines))


def step_messages(episode: Episode, *, newest: bool = True) -> Iterator[Message]:
    """A step as messages: the assistant's, then one for each result.

    Every tool call of a finished step has a result. A call of the newest step has none while it is in flight.
    """
    yield assistant_message(episode)
    yield from _results(episode, has_open_calls=newest and episode.status == "in_flight")
    yield from (Message(role="user", content=f"Overall: {text}") for text in episode.overall)
    yield from (Message(role="user", content=late_text(result)) for result in episode.late)


def _results(episode: Episode, *, has_open_calls: bool) -> Iterator[Message]:
    if not episode.output.tool_calls:
        yield from (text_result(result, episode) for result in episode.results)
        return
    answers = {call_id: answered for answered in episode.received for call_id in answered.calls}
    for id in dict.fromkeys(tool_call.id for tool_call in episode.output.tool_calls):
        if id not in answers:
            if not has_open_calls:
                yield Message(role="tool", content=NO_RESULT, tool_call_id=id, is_error=True)
        elif answers[id].calls[0] == id:
            yield call_result(answers[id].result, id)
        else:
            yield Message(
                role="tool", content=ANSWERED_TOGETHER.format(answers[id].calls[0]), tool_call_id=id
            )


def assistant_message(episode: Episode) -> Message:
    """The output as a message, in the provider's shape if its raw message was recorded."""
    output, raw = episode.output, episode.output.raw_message
    calls: list[Any] | None = None
    if output.tool_calls:  # for a thousand calls, ``model_dump`` takes six times as long
        calls = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in output.tool_calls
        ]
    if raw is not None:
        written = raw.get("tool_calls")
        return Message(
            role="assistant",
            content=raw.get("content") or output.text,
            tool_calls=written if isinstance(written, list) and (written or not calls) else calls,
            reasoning=output.reasoning,
        )
    content = output.text
    if output.use_tool and not calls:
        action = dump_json({"thoughts": output.thoughts_text, "use_tool": output.use_tool.model_dump()})
        content = f"{content}\n\n{action}" if content else action
    return Message(role="assistant", content=content, tool_calls=calls, reasoning=output.reasoning)


def call_result(result: ToolResult, call_id: str) -> Message:
    """The answer to a provider tool call."""
    content: Any = ""
    match result.status:
        case "success":
            content = result.outputs if are_parts(result.outputs) else str(result.outputs)
        case "interrupted_by_human":
            content = result.feedback or ""
        case _:
            details = result.error.repr if result.error and result.status == "error" else ""
            content = f"{result.reason or ''}\n\n{details}".strip()
    failed = result.status != "success"
    return Message(role="tool", content=_complete(content, result), tool_call_id=call_id, is_error=failed)


def text_result(result: ToolResult, episode: Episode) -> Message:
    """The answer to an action that the model wrote as text."""
    action = episode.action
    name = action.name if action else "The action"
    match result.status:
        case "success":
            outputs = str(result.outputs)
            shown = f"```\n{outputs}\n```" if "\n" in outputs else f"`{outputs}`"
            content = f"{name} returned: {shown}"
        case "interrupted_by_human":
            content = result.feedback or ""
        case _:
            content = f"{name} raised an error: ```\n{result.reason or ''}\n```"
    return Message(role="user", content=_complete(content, result))


def _complete(content: Any, result: ToolResult) -> Any:
    """The content, followed by the parts of a result that the earlier systems did not have."""
    further = [f"{label}: {text}" for label, text in further_parts(result)]
    if are_parts(content):
        return [*content, *({"type": "text", "text": text} for text in further)]
    return "\n\n".join([*([content] if content else []), *further])


def message_tokens(message: Message, count: TokenCounter) -> int:
    """The tokens of a message: each text and tool call with its share of overhead."""
    texts = [plain_text(message.content)] if plain_text(message.content).strip() else []
    for tool_call in message.tool_calls or ():
        function = tool_call.get("function", tool_call) if isinstance(tool_call, dict) else {}
        arguments = function.get("arguments")
        texts.append(
            f"{function.get('name')} {arguments if isinstance(arguments, str) else json_text(arguments)}"
        )
    return sum(count(text) + OVERHEAD for text in texts)
