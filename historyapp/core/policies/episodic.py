"""The newest steps as messages, older ones as one progress message (SEMANTICS A).

Filling stops at the first older step that does not fit. The newest steps are never dropped: where they alone
exceed the budget, the manifest says so.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from historyapp.core.entries import Entry, ToolResult
from historyapp.core.episodes import Episode, Status
from historyapp.core.manifest import Context, Form, LeftOut, Manifest, Message, Segment
from historyapp.core.policies.base import Past
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

    def choose(self, past: Past, settings: SessionSettings, count: TokenCounter) -> Context:
        """The context and its manifest. A step in flight has its action in it, and no result yet."""
        stream = past.episodes_newest_first()
        recent = list(islice(stream, max(0, settings.full_message_count)))[::-1]
        inputs = list(past.inputs(_start_of(recent, past)))
        messages, segments = _recent(recent, inputs, past.steps, count)
        used = sum(segment.tokens for segment in segments)
        fitted = _fill(stream, used, settings.max_tokens, count, progress_line)
        notes = []
        if settings.max_tokens is not None and used > settings.max_tokens:
            notes.append(
                f"The newest {len(recent)} steps alone exceed the budget of {settings.max_tokens} tokens."
            )
        if fitted:
            text = "\n\n".join(line for _, line, _ in fitted)
            messages.insert(0, Message(role="system", content=PROGRESS + text))
        older = [_older_segment(episode, tokens) for episode, _, tokens in fitted]
        kept = len(recent) + len(fitted)
        manifest = Manifest(
            policy=self.name,
            max_tokens=settings.max_tokens,
            tokens=sum(segment.tokens for segment in (*older, *segments)),
            segments=[*older, *segments],
            left_out=_left_out(past.steps - kept),
            notes=notes,
        )
        return Context(messages=messages, manifest=manifest)


def compile_progress(past: Past, settings: SessionSettings, count: TokenCounter) -> str:
    """The history as text within ``settings.max_tokens``.

    Long forms for the newest ``full_message_count`` steps and where no summary exists, summaries for the rest.
    Oldest first, without what does not fit.
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


def _recent(
    recent: list[Episode], inputs: list[Entry], steps: int, count: TokenCounter
) -> tuple[list[Message], list[Segment]]:
    parts: list[tuple[int, list[Message], Segment]] = []
    for episode in recent:
        said = list(step_messages(episode, newest=episode.number == steps))
        segment = Segment(source="step", step=episode.number, tokens=_cost(said, count))
        parts.append((episode.first_position, said, segment))
    for entry in inputs:
        said = [Message(role="user", content=getattr(entry.body, "content", ""))]
        segment = Segment(source="input", position=entry.position, tokens=_cost(said, count))
        parts.append((entry.position, said, segment))
    parts.sort(key=lambda part: part[0])
    return [message for _, said, _ in parts for message in said], [segment for _, _, segment in parts]


def step_messages(episode: Episode, *, newest: bool = True) -> Iterator[Message]:
    """A step as messages: the assistant's, then one for each result.

    Every call of a finished step is answered; that of a step in flight is not, while it is the newest one.
    """
    yield assistant_message(episode)
    if newest and episode.status == "in_flight" and not episode.results:
        return
    if not episode.output.tool_calls:
        if episode.result is not None:
            yield text_result(episode.result, episode)
        return
    answers = {result.tool_call_id: result for result in episode.results}
    whole = answers.get(None)
    for index, call in enumerate(episode.output.tool_calls):
        result = answers.get(call.id) or (whole if index == 0 else None)
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
    if raw is not None:
        return Message(role="assistant", content=raw.get("content") or "", tool_calls=raw.get("tool_calls"))
    calls = [call.model_dump() for call in output.tool_calls] or None
    content = output.text
    if not content and output.use_tool:
        content = dump_json({"thoughts": episode.thoughts, "use_tool": output.use_tool.model_dump()})
    return Message(role="assistant", content=content, tool_calls=calls)


def call_result(result: ToolResult, call_id: str) -> Message:
    """The answer to a provider tool call."""
    match result.status:
        case "success":
            return Message(role="tool", content=str(result.outputs), tool_call_id=call_id)
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


def _cost(messages: Iterable[Message], count: TokenCounter) -> int:
    return sum(count(_text(message)) for message in messages)


def _text(message: Message) -> str:
    content = message.content if isinstance(message.content, str) else dump_json(message.content)
    return content + (dump_json(message.tool_calls) if message.tool_calls else "")


def _older_segment(episode: Episode, tokens: int) -> Segment:
    form: Form = "full" if episode.summary is None else "summarised"
    return Segment(source="step", step=episode.number, form=form, tokens=tokens)


def _left_out(steps: int) -> list[LeftOut]:
    if steps <= 0:
        return []
    return [LeftOut(first_step=1, last_step=steps, reason="older than the first step that did not fit")]


EPISODIC = Episodic()
