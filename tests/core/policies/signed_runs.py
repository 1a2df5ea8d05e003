"""Runs of agents whose models sign or encrypt their reasoning, with the request in which each was made."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context
from historyapp.core.conversation import Turn
from historyapp.core.entries import (
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.episodes import conversation_parts
from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS, prefix_bytes
from historyapp.core.formats.reasoning import sendable
from historyapp.core.manifest import Manifest
from historyapp.core.policies import POLICIES
from historyapp.core.policies.base import Origin, RequestExtras
from historyapp.core.settings import SessionSettings
from tests.core.entries import entry
from tests.core.policies.past import MemoryPast, Summary

BINDING = ("anthropic_messages", "openai_responses")
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {}}}
OTHER_FORMAT = "another format"
FIXED = ("system_instruction", "memory_notebook")


@dataclass(frozen=True)
class Made:
    """The request in which an output was made: its format, its bytes, and whether it is a snapshot."""

    format: str
    request: bytes
    is_snapshot: bool


class MadePast(MemoryPast):
    """A session in which the requests of some outputs were recorded."""

    def __init__(self, run: "Run") -> None:
        super().__init__(run.live, [s for s in run.summaries if run.has(s)])
        self._made = dict(run.made)

    def origins(self, outputs: Sequence[int], format: str, model: str) -> Mapping[int, Origin]:
        origins_by_position = dict(super().origins(outputs, format, model))
        for position in outputs:
            made = self._made[position]
            if made.format != format:
                origins_by_position[position] = Origin(change=OTHER_FORMAT)
            elif made.is_snapshot:
                origins_by_position[position] = Origin(hashlib.sha256(made.request).hexdigest())
        return origins_by_position


@dataclass
class Run:
    """A session while it is recorded."""

    live: list[Entry] = field(default_factory=list)
    head: int = 0
    made: dict[int, Made] = field(default_factory=dict)
    """By the position of the output."""
    summaries: list[Summary] = field(default_factory=list)
    texts: int = 0

    def __repr__(self) -> str:
        return "\n".join(f"{entry.position} {entry.body!r}" for entry in self.live)

    def add(self, body: Any) -> None:
        self.head += 1
        self.live.append(entry(self.head, body))

    def text(self, words: int = 1) -> str:
        self.texts += 1
        return f"t{self.texts} " + "word " * words

    def has(self, summary: Summary) -> bool:
        ends = {entry.position for entry in self.live}
        return {summary.first_position, summary.last_position} <= ends

    def rewind(self, back: int) -> None:
        """Positions continue, as after a rewind."""
        self.live = self.live[: max(0, len(self.live) - back)]
        self.head += 1

    def fork(self, back: int) -> None:
        """Positions continue from the fork."""
        self.live = self.live[: max(0, len(self.live) - back)]
        self.head = self.live[-1].position if self.live else 0
        self.made = {at: made for at, made in self.made.items() if at <= self.head}
        self.summaries = [summary for summary in self.summaries if summary.last_position <= self.head]

    def summarise(self, first: int, last: int) -> None:
        episodes = MemoryPast(self.live).episodes(first, last)
        if episodes:
            ends = episodes[0].first_position, episodes[-1].last_position
            numbers = episodes[0].number, episodes[-1].number
            self.summaries.append(
                Summary(f"s{self.head}-{len(self.summaries)}", *ends, *numbers, "it went well")
            )

    def answer(
        self, format: str, request: bytes, *, is_snapshot: bool, blocks: int, calls: int, words: int
    ) -> None:
        """A model's answer to a request, with reasoning of its own, and the results of its calls."""
        tool_calls = [ToolCall(id=f"c{self.head}_{n}", name="look", arguments={}) for n in range(calls)]
        reasoning = [block_of(format, f"{self.head + 1}.{n}.{self.texts}") for n in range(blocks)]
        text = self.text(words) if words or not calls else ""
        self.add(ModelOutput(text=text, tool_calls=tuple(tool_calls), reasoning=reasoning))
        self.made[self.head] = Made(format, request, is_snapshot)
        if calls:
            results = [
                ToolResult(tool_call_id=c.id, status="success", outputs=self.text(words)) for c in tool_calls
            ]
            self.add(ToolResults(results=tuple(results)))

    def full_request(self, format: str) -> bytes:
        """Everything live, with all reasoning, written without a policy."""
        meter, parts = RequestMeter(format), []
        for part in conversation_parts(logged for logged in self.live if logged.kind not in FIXED):
            if isinstance(part, Turn):
                part = replace(part, has_reasoning=False)
            written = meter.write(part)
            if isinstance(part, Turn) and sendable(FORMATS[format], part.output) == "all":
                written = meter.with_reasoning(written, part.output)
            parts.append(written)
        past = MemoryPast(self.live)
        chosen = Context(
            tuple(parts),
            Manifest(policy="full", max_tokens=None, tokens=0),
            past.instruction or "",
            past.notebook or "",
        )
        return prefix_bytes(FORMATS[format].request(chosen))


def block_of(format: str, mark: str) -> dict[str, Any]:
    if format == "anthropic_messages":
        return {"signature": f"S{mark}", "type": "thinking", "thinking": "hm"}
    return {
        "id": f"rs{mark}",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": f"E{mark}",
        "content": [],
    }


@dataclass(frozen=True)
class ContextRequest:
    """The options of a context."""

    policy: str
    format: str
    max_tokens: int | None = None
    with_tools: bool = False

    def build(self, run: Run) -> tuple[Context, dict[str, Any]] | None:
        """The context and its request; None if the budget is too small."""
        settings = SessionSettings(max_tokens=self.max_tokens, window_size=2, full_message_count=3)
        extras = RequestExtras(tools=[TOOL] if self.with_tools else [])
        try:
            context = POLICIES[self.policy].choose(MadePast(run), settings, RequestMeter(self.format), extras)
        except Invalid:
            return None
        return context, FORMATS[self.format].request(context, extras.tools)


CONTEXT_REQUESTS = st.builds(
    ContextRequest,
    policy=st.sampled_from(["live", "live", *POLICIES]),
    format=st.sampled_from(BINDING),
    max_tokens=st.none() | st.none() | st.integers(100, 600),
    with_tools=st.sampled_from([False, False, True]),
)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Answers to contexts of any policy and to an agent's own requests, between inputs, rewinds and forks."""
    run = Run()
    usual = draw(CONTEXT_REQUESTS)
    kinds = [
        *["usual"] * 6,
        *["asked", "own", "own", "person", "person"],
        "rewind",
        "fork",
        "summary",
        "fixed",
        "remark",
    ]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12)):
        match kind:
            case "usual" | "asked" | "own":
                chosen = usual if kind == "usual" else draw(CONTEXT_REQUESTS)
                built = chosen.build(run) if kind != "own" else None
                request = prefix_bytes(built[1]) if built else run.full_request(chosen.format)
                run.answer(
                    chosen.format,
                    request,
                    is_snapshot=built is not None,
                    blocks=draw(st.sampled_from([0, 1, 1, 2])),
                    calls=draw(st.sampled_from([0, 1, 1, 1, 2])),
                    words=draw(st.sampled_from([0, 2, 60])),
                )
            case "person":
                run.add(
                    ModelInput(channel=draw(st.sampled_from(["user", "user", "system"])), content=run.text())
                )
            case "fixed":
                kind_of = draw(st.sampled_from([SystemInstruction, MemoryNotebook]))
                text = run.text()
                run.add(kind_of(text=text) if kind_of is SystemInstruction else MemoryNotebook(content=text))
            case "remark":
                late = ToolResult(tool_call_id="zzz", status="success", outputs=run.text())
                run.add(ToolResults(overall=run.text(), results=(late,)))
            case "rewind":
                run.rewind(draw(st.integers(1, 4)))
            case "fork":
                run.fork(draw(st.integers(1, 4)))
            case "summary":
                first = draw(st.integers(1, 6))
                run.summarise(first, first + draw(st.integers(0, 3)))
    return run
