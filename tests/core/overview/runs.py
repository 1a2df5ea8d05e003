"""Short ways to write the entries of a run, with times."""

from datetime import UTC, datetime, timedelta
from typing import Any

from historyapp.core.entries import (
    Body,
    DebugLog,
    Entry,
    ModelInput,
    ModelOutput,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.core.overview.figures import RunFigures

START = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


class Run:
    """Entries that follow each other, each some seconds after the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now = START

    def add(self, body: Body, after: float = 0, tokens: int = 10, **metadata: Any) -> "Run":
        self.now += timedelta(seconds=after)
        self.entries.append(Entry(len(self.entries) + 1, body, self.now, metadata, tokens))
        return self

    def ask(self, after: float = 0, channel: str = "user") -> "Run":
        return self.add(ModelInput(content="go on", channel=channel), after)

    def note(self, category: str) -> "Run":
        return self.add(DebugLog(category=category, message="…"))

    def call(self, name: str = "Bash", after: float = 0, usage: Any = None, **arguments: Any) -> "Run":
        call = ToolCall(id="1", name=name, arguments=arguments)
        metadata = {"usage": usage} if usage else {}
        return self.add(ModelOutput(tool_calls=(call,)), after, **metadata)

    def ok(self, outputs: str = "fine", after: float = 0) -> "Run":
        result = ToolResult(tool_call_id="1", status="success", outputs=outputs)
        return self.add(ToolResults(results=(result,)), after)

    def failed(self, reason: str = "no such file", after: float = 0) -> "Run":
        result = ToolResult(tool_call_id="1", status="error", reason=reason)
        return self.add(ToolResults(results=(result,)), after)

    def stopped(self) -> "Run":
        result = ToolResult(tool_call_id="1", status="interrupted_by_human", feedback="Not that.")
        return self.add(ToolResults(results=(result,)))

    def answer(self, after: float = 0) -> "Run":
        return self.add(ModelOutput(text="done"), after)

    @property
    def figures(self) -> RunFigures:
        figures = RunFigures()
        for run in self.runs:
            figures.add_group(run)
        return figures

    @property
    def runs(self) -> list[list[Entry]]:
        """What precedes the first output, then each output with what follows it."""
        groups: list[list[Entry]] = [[]]
        for entry in self.entries:
            if isinstance(entry.body, ModelOutput):
                groups.append([])
            groups[-1].append(entry)
        return [run for run in groups if run]
