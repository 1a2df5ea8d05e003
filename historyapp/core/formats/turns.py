"""Live entries as turns: each output with exactly one result for each of its calls, whatever the log has.

Providers refuse a call without a result, a result without a call, and anything in between. So what was said
between a call and its result comes after them; a call that nothing answered gets a truthful result; and a
result that answers nothing is told apart, to be shown as text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from historyapp.core.entries import (
    Body,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.formats.parts import plain_text
from historyapp.core.rendering import call_text
from historyapp.core.results import result_text

NO_RESULT = "interrupted: no result was recorded"
NO_OUTPUT = "(no output)"
INSTRUCTING = ("system", "developer")
"""Channels whose inputs are instructions."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Turn:
    """An output and what came back."""

    position: int
    output: ModelOutput
    results: tuple[ToolResult, ...]
    """One for each tool call, in their order; one for an action written as text; none for an answer."""


@dataclass(frozen=True, slots=True)
class Aside:
    """Anything else that a model reads. A result here is of no call that the session knows."""

    position: int
    body: SystemInstruction | MemoryNotebook | ModelInput | ToolResult


@dataclass(slots=True)
class _Open:
    """An output whose calls are not all answered yet."""

    position: int
    output: ModelOutput
    answers: dict[str, ToolResult] = field(default_factory=dict)
    asides: list[Aside] = field(default_factory=list)

    @property
    def wanted(self) -> list[str]:
        """Ids of the calls without an answer; an empty one for an action written as text."""
        ids = [call.id for call in self.output.tool_calls] or [""] * (self.output.use_tool is not None)
        return [id for id in ids if id not in self.answers]

    def take(self, result: ToolResult) -> bool:
        """Whether the result answers something here. One without an id answers all that is left."""
        wanted = self.wanted
        if result.tool_call_id is not None and wanted != [""]:
            wanted = [id for id in wanted if id == result.tool_call_id]
        self.answers.update(dict.fromkeys(wanted, result))
        return bool(wanted)

    def close(self) -> Iterator[Turn | Aside]:
        for id in self.wanted:
            self.answers[id] = ToolResult(tool_call_id=id or None, status="error", reason=NO_RESULT)
        results = [self.answers[call.id] for call in self.output.tool_calls] or list(self.answers.values())
        yield Turn(self.position, self.output, tuple(results))
        yield from self.asides


def turns(entries: Iterable[Entry]) -> Iterator[Turn | Aside]:
    """Live entries, oldest first, as turns and what is said between them. Logs and reviews are left out."""
    return paired((entry.position, entry.body) for entry in entries)


def paired(bodies: Iterable[tuple[int, Body]]) -> Iterator[Turn | Aside]:
    """As :func:`turns`, of bodies with any number that their turn or aside is to keep."""
    current: _Open | None = None
    for position, body in bodies:
        match body:
            case ModelOutput() as output:
                if current:
                    yield from current.close()
                current = _Open(position, output)
            case ToolResults(results=results):
                for result in results:
                    if not (current and current.take(result)):
                        stray = Aside(position, result)
                        yield from _aside(current, stray)
            case SystemInstruction() | MemoryNotebook() | ModelInput() as said:
                yield from _aside(current, Aside(position, said))
        if current and not current.wanted:
            yield from current.close()
            current = None
    if current:
        yield from current.close()


def _aside(current: _Open | None, aside: Aside) -> Iterator[Aside]:
    """The aside at once, or after the turn that is under way."""
    if current and current.wanted:
        current.asides.append(aside)
    else:
        yield aside


class CallIds:
    """Ids that a provider accepts: unique, and short enough, of letters, digits, ``_`` and ``-``."""

    def __init__(self, longest: int) -> None:
        self._legal = re.compile(rf"[A-Za-z0-9_-]{{1,{longest}}}")
        self._used: set[str] = set()

    def of(self, position: int, call: ToolCall) -> str:
        """The call's own id, or another one that only depends on its position where that will not do."""
        id = call.id
        number = 0
        while id in self._used or not self._legal.fullmatch(id):
            number += 1
            id = f"call_{position}_{number}"
        self._used.add(id)
        return id


def legal_name(name: str) -> str:
    """A tool's name as providers accept it."""
    return _NAME.sub("_", name)[:_LONGEST_NAME] or "tool"


def object_of(arguments: Any) -> dict[str, Any]:
    """Arguments as the object that providers want; what was written instead of one stands under ``raw``."""
    return arguments if isinstance(arguments, dict) else {"raw": arguments}


def spoken(output: ModelOutput) -> str:
    """What an output says in words. An action written as text is said as the model wrote it."""
    if output.tool_calls or output.use_tool is None:
        return output.text or ("" if output.tool_calls or output.reasoning else output.thoughts_text)
    raw = (output.raw_message or {}).get("content")
    if isinstance(raw, str) and raw.strip():
        return raw
    call = call_text(output.use_tool.name, output.use_tool.arguments)
    return "\n\n".join(part for part in (output.thoughts_text, output.text, call) if part.strip())


def returned(result: ToolResult) -> str:
    """What a tool returned, in words; never empty."""
    match result.status:
        case "success":
            said = plain_text(result.outputs)
        case "error":
            error = plain_text(result.error.model_dump()) if result.error else ""
            said = "\n\n".join(part for part in (result.reason, error) if part)
        case _:
            said = result_text(result)
    return said if said.strip() else NO_OUTPUT


def reported(result: ToolResult, output: ModelOutput | None = None) -> str:
    """A result as said to the model: as it came where the model acted by text of its own, else named."""
    said = returned(result)
    if result.status == "interrupted_by_human" or (output and output.raw_message):
        return said
    name = result.tool_name or (output.use_tool.name if output and output.use_tool else "") or "The tool"
    if result.status != "success":
        return f"{name} raised an error: {fenced(said)}"
    shown = fenced(said) if "\n" in said else f"`{said}`"
    return f"{name} returned: {shown}"


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block that nothing in the text can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
