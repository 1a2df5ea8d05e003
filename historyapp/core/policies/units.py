"""A session's past as what a context is put together from: steps and inputs, newest first, as messages."""

from collections.abc import Iterator
from heapq import merge

from historyapp.core.entries import Entry, ModelInput, ToolResult
from historyapp.core.episodes import Episode
from historyapp.core.formats.parts import are_parts
from historyapp.core.formats.turns import reported, returned, spoken
from historyapp.core.manifest import Message
from historyapp.core.policies.base import Past

OPEN = ("in_flight", "abandoned")


Unit = Episode | Entry
"""A step, or an input."""


def newest_first(past: Past) -> Iterator[Unit]:
    """All live steps and inputs. An input that came during a step stands after it."""
    return merge(past.episodes_newest_first(), past.inputs_newest_first(), key=position_of, reverse=True)


def position_of(unit: Unit) -> int:
    return unit.first_position if isinstance(unit, Episode) else unit.position


def messages_of(unit: Unit) -> list[Message]:
    """The unit in full. A step without results has none here: formats say so truthfully."""
    if isinstance(unit, Episode):
        return [proposal(unit), *answers(unit), *late(unit)]
    return [input_message(unit)]


def input_message(entry: Entry) -> Message:
    assert isinstance(entry.body, ModelInput)
    role = "system" if entry.body.channel in ("system", "developer") else "user"
    return Message.model_validate({"role": role, "content": entry.body.content})


def proposal(episode: Episode) -> Message:
    """What the model said and called, with the reasoning behind it."""
    output = episode.output
    calls = [call.model_dump() for call in output.tool_calls] or None
    return Message(role="assistant", content=spoken(output), tool_calls=calls, reasoning=output.reasoning)


def answers(episode: Episode) -> Iterator[Message]:
    """What came back: one message for each call that has a result."""
    output = episode.output
    if not output.tool_calls:
        for result in episode.results:
            yield Message(role="user", content=reported(result, output))
        return
    by_id = {result.tool_call_id: result for result in episode.results}
    whole = by_id.get(None)
    for index, id in enumerate(dict.fromkeys(call.id for call in output.tool_calls)):
        if id in by_id:
            yield answer(by_id[id], id)
        elif whole is not None:
            first = output.tool_calls[0].id
            told = answer(whole, id) if index == 0 else None
            yield told or Message(role="tool", content=f"Answered together with {first}.", tool_call_id=id)


def late(episode: Episode) -> Iterator[Message]:
    """Results that answer no open call of the step, as text: no provider takes them as anything else."""
    for result in episode.late:
        yield Message(role="user", content=f"{_late_of(result)}\n{reported(result)}")


def _late_of(result: ToolResult) -> str:
    call = f" of the call {result.tool_call_id}" if result.tool_call_id else ""
    return f"A result{call} that came late:"


def answer(result: ToolResult, id: str) -> Message:
    """One result as the answer to a call."""
    failed = result.status != "success"
    content = result.outputs if not failed and are_parts(result.outputs) else returned(result)
    return Message(role="tool", content=content, tool_call_id=id, is_error=failed)
