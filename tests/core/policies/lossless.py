"""Random sessions with distinct texts, and what a context of them must contain or list."""

import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from historyapp.core.entries import (
    Entry,
    ErrorDetails,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    ResultStatus,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.manifest import Manifest
from tests.core.entries import entry

MARK = re.compile(r"q[a-z]+q")
"""A word of its own for each text. It is no identifier, so that no list of names repeats it."""
IDS = ("a", "b", "c")
STATUSES: tuple[ResultStatus, ...] = ("success", "success", "error", "skipped", "interrupted_by_human")
KINDS = ("input", "output", "output", "results", "results", "results", "instruction", "notebook", "rewind")


@dataclass
class Session:
    """A session, and the entry of each text."""

    live: list[Entry] = field(default_factory=list)
    head: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    """The position of each text."""
    count: int = 0

    def __repr__(self) -> str:
        return "\n".join(f"{logged.position} {logged.body!r}" for logged in self.live)

    def mark(self, filler: int = 0) -> str:
        number, letters = self.count, ""
        while True:
            number, digit = divmod(number, 26)
            letters += chr(97 + digit)
            if not number:
                break
        self.count += 1
        mark = f"q{letters}q"
        self.marks[mark] = self.head + 1
        return mark + " filler" * filler

    def add(self, body: Any) -> None:
        self.head += 1
        self.live.append(entry(self.head, body))

    def rewind(self, back: int) -> None:
        """Removes the newest entries. Positions continue, as after a rewind or in a fork."""
        gone = self.live[len(self.live) - min(back, len(self.live)) :]
        self.live = self.live[: len(self.live) - len(gone)]
        positions = {logged.position for logged in gone}
        self.marks = {mark: at for mark, at in self.marks.items() if at not in positions}
        self.head += 1


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Several calls, ids missing, repeated or foreign, late results, abandoned steps, rewinds."""
    log = Session()
    kinds = [
        "input",
        "output",
        "output",
        "results",
        "results",
        "results",
        "instruction",
        "notebook",
        "rewind",
    ]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=14)):
        filler = draw(st.sampled_from([0, 0, 0, 40, 300]))
        match kind:
            case "input":
                channel = draw(st.sampled_from(["user", "user", "system", "environment"]))
                log.add(ModelInput(channel=channel, content=log.mark(filler)))
            case "output":
                log.add(draw(outputs(log, filler)))
            case "results":
                log.add(draw(results(log, filler)))
            case "instruction":
                log.add(SystemInstruction(text=log.mark()))
            case "notebook":
                log.add(MemoryNotebook(content=log.mark()))
            case "rewind":
                log.rewind(draw(st.integers(1, 4)))
    return log


@st.composite
def outputs(draw: st.DrawFn, log: Session, filler: int) -> ModelOutput:
    text = log.mark(filler) if draw(st.booleans()) else ""
    if draw(st.integers(0, 5)) == 0:
        return ModelOutput(text=text, use_tool=UseTool(name="act", arguments={"at": log.mark()}))
    ids = draw(st.lists(st.sampled_from(IDS), max_size=3))
    calls = tuple(ToolCall(id=id, name="look", arguments={"at": log.mark()}) for id in ids)
    return ModelOutput(text=text or ("" if calls else log.mark()), tool_calls=calls)


@st.composite
def results(draw: st.DrawFn, log: Session, filler: int) -> ToolResults:
    tool_results = tuple(draw(a_result(log, filler)) for _ in range(draw(st.integers(1, 3))))
    return ToolResults(overall=log.mark() if draw(st.integers(0, 3)) == 0 else None, results=tool_results)


@st.composite
def a_result(draw: st.DrawFn, log: Session, filler: int) -> ToolResult:
    status = draw(st.sampled_from(STATUSES))
    parts: dict[str, Any] = {}
    for name in draw(st.sets(st.sampled_from(["outputs", "reason", "feedback", "error"]), min_size=1)):
        text = log.mark(filler)
        error = ErrorDetails(message="m", exception_type="E", repr=text)
        parts[name] = error if name == "error" else text
    return ToolResult(tool_call_id=draw(st.sampled_from([None, *IDS, "zzz"])), status=status, **parts)


def current_marks(log: Session) -> set[str]:
    """The texts that a context must contain or list. Of instructions and notebooks, only the newest."""
    newest = {e.kind: e.position for e in log.live if e.kind in ("system_instruction", "memory_notebook")}
    old = {e.position for e in log.live if e.kind in newest and e.position != newest[e.kind]}
    return {mark for mark, position in log.marks.items() if position not in old}


def expected_slots(log: Session) -> dict[str, str]:
    """For each text of a result, the text of the call that it answers, or an empty text."""
    slots: dict[str, str] = {}
    open_calls: list[tuple[str | None, str]] = []
    for logged in log.live:
        if isinstance(logged.body, ModelOutput):
            calls = [(call.id, call.arguments["at"]) for call in logged.body.tool_calls]
            action = logged.body.use_tool if not calls else None
            open_calls = [*calls, *([(None, action.arguments["at"])] if action else [])]
        if isinstance(logged.body, ToolResults):
            unnamed = [result for result in logged.body.results if result.tool_call_id is None]
            for result in logged.body.results:
                if result.tool_call_id is not None:
                    answered_calls = [call for call in open_calls if call[0] == result.tool_call_id]
                else:
                    answered_calls = open_calls if result is unnamed[-1] else open_calls[:1]
                    # Calls with one id are answered together.
                    answered_calls = [
                        call
                        for call in open_calls
                        if call in answered_calls or call[0] in {t[0] for t in answered_calls}
                    ]
                open_calls = [call for call in open_calls if call not in answered_calls]
                for mark in MARK.findall(result.model_dump_json()):
                    slots[mark] = MARK.findall(answered_calls[0][1])[0] if answered_calls else ""
    return slots


def accounted(manifest: Manifest, position: int, step: int | None) -> bool:
    """Whether a text that is not in a context is masked, clipped, summarised, or left out with a reason."""
    for out in manifest.left_out:
        assert out.reason
        if step and out.first_step and out.first_step <= step <= (out.last_step or out.first_step):
            return True
        if out.position and out.position <= position <= (out.last_position or out.position):
            return True
    return any(
        segment.form != "full"
        and (
            segment.position == position
            or (step and segment.step and segment.step <= step <= (segment.last_step or segment.step))
        )
        for segment in manifest.segments
    )
