"""SWE-agent trajectories (``*.traj``): one JSON object with ``history`` and ``trajectory``.

``history`` is what the model saw. ``trajectory`` adds the run time and the state of the shell to each step,
and may have steps that the history lacks, usually the last one with the submission. Older runs have no tool
calls: the model writes a thought and a command as text, and the next user message is the result.
"""

import re
from collections.abc import Iterator
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import (
    Body,
    DebugLog,
    EntryDraft,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolResults,
    UseTool,
)
from historyapp.core.importers.base import Append, Head, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.chat_messages import source_calls
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.messages import CallMatcher, session_of, title_of, tool_result
from historyapp.core.importers.records import SourceRecord, present_fields, read_document, records
from historyapp.core.json import listing, mapping, parse_embedded, text

_SHELL = "shell"
_LOOK_AHEAD = 8
_ROLES = ("system", "user", "assistant", "tool")
_OWN_FIELDS = {"message_type", "agent", "thought", "action"}
_EQUAL_FIELDS = (("response", "content"), ("action", "action"))
"""Fields of a step, and the fields of its message with the same value."""
_ISSUE = re.compile(r"^ISSUE:\s*(.+)$", re.MULTILINE)


class _SweAgent:
    name = "swe_agent"
    title = "SWE-agent trajectory"

    def recognises(self, head: Head) -> bool:
        document = mapping(head.document)
        steps, history = listing(document.get("trajectory")), listing(document.get("history"))
        if any("action" in mapping(step) and "observation" in mapping(step) for step in steps[:5]):
            return True
        return any(
            message.get("role") in _ROLES and not _OWN_FIELDS.isdisjoint(message)
            for message in map(mapping, history[:5])
        )

    def read(self, source: Source) -> Iterator[Operation]:
        document = mapping(read_document(source))
        yield from require_entries(_operations(document, session_of(source)), source, self.title)


SWE_AGENT = _SweAgent()


def _operations(document: dict[str, Any], session: str) -> Iterator[Operation]:
    history, steps = listing(document.get("history")), listing(document.get("trajectory"))
    yield _start(document, history, session)
    run = _SweAgentRun(session, steps)
    for record in records(history):
        if isinstance(record, Skipped):
            yield record
        else:
            yield from run.message(record)
    for operation in run.remaining():  # a longer history may contain them
        yield operation._replace(provisional=True) if isinstance(operation, Append) else operation


def _start(document: dict[str, Any], history: list[Any], session: str) -> SessionStart:
    replay = mapping(_parsed(document.get("replay_config")))
    model = mapping(mapping(replay.get("agent")).get("model"))
    info = mapping(document.get("info"))
    task_message = next(
        (mapping(m) for m in history if mapping(m).get("role") == "user" and not m.get("is_demo")), {}
    )
    stated = text(mapping(replay.get("problem_statement")).get("text")).strip()
    prompt = plain_text(neutral_content(task_message.get("content")))
    issue = _ISSUE.search(prompt)
    task = stated.split("\n")[0] or (issue[1] if issue else prompt)
    return SessionStart(
        session,
        title=title_of(task),
        agent="SWE-agent",
        model=text(model.get("name")),
        metadata=present_fields(
            environment=document.get("environment"),
            exit_status=info.get("exit_status"),
            submission=info.get("submission"),
            model_stats=info.get("model_stats"),
        ),
    )


def _parsed(value: Any) -> Any:
    """The value, parsed if it is JSON in a text, such as the state in older runs."""
    try:
        return parse_embedded(value) if isinstance(value, str) else value
    except ValueError:
        return value


class _SweAgentRun:
    """Merges the history with the trajectory's steps, which come in the same order."""

    def __init__(self, session: str, steps: list[Any]) -> None:
        self._session = session
        self._steps = [step.data if isinstance(step, SourceRecord) else {} for step in records(steps)]
        self._calls = CallMatcher(session)
        self._next_step = 0
        self._step: dict[str, Any] = {}
        """The trajectory's step of the newest output."""
        self._is_open = False
        """Whether the newest output has a tool call or command without a result."""

    def message(self, record: SourceRecord) -> Iterator[Operation]:
        """The entries of a message, after the entries of earlier steps that only the trajectory has."""
        message, source = record.data, {"format": SWE_AGENT.name, "index": record.number}
        content = neutral_content(message.get("content"))
        content_text = plain_text(content)
        match message.get("role"):
            case _ if message.get("is_demo"):
                yield self._append(DebugLog(category="demonstration", message=content_text), source)
            case "system":
                yield self._append(SystemInstruction(text=content_text), source)
            case "assistant":
                index: int | None = None  # its step is the next one or one of those after it
                near = self._steps[self._next_step : self._next_step + _LOOK_AHEAD]
                for number, step in enumerate(near, self._next_step):
                    if any(step.get(a) and step.get(a) == message.get(b) for a, b in _EQUAL_FIELDS):
                        index = number
                        break
                for number in range(self._next_step, index or self._next_step):
                    yield from self._trajectory_step(number)
                self._step = self._steps[index] if index is not None else {}
                self._next_step = self._next_step if index is None else index + 1
                yield self._output(message, content_text, source)
            case "tool":
                yield self._results(message, content, source)
            case "user" if self._is_open:
                yield self._results({}, content, source)
            case "user":
                yield self._append(ModelInput(content=content), source)
            case _:
                yield Skipped(record.number, "a message without a known role")

    def remaining(self) -> Iterator[Operation]:
        """The last result and later steps, if only the trajectory has them."""
        observation = self._step.get("observation")
        if self._is_open and isinstance(observation, str):
            source = {"format": SWE_AGENT.name, "step": self._next_step}
            while self._is_open:
                yield self._results({}, observation, source)
        for number in range(self._next_step, len(self._steps)):
            yield from self._trajectory_step(number)

    def _trajectory_step(self, number: int) -> Iterator[Operation]:
        self._step = self._steps[number]
        self._next_step = number + 1
        source = {"format": SWE_AGENT.name, "step": number + 1}
        if not self._step:
            yield Skipped(number + 1, "a step of the trajectory that cannot be read")
            return
        response = text(self._step.get("response"))
        yield self._output({**self._step, "role": "assistant", "content": response}, response, source)
        while self._is_open:
            yield self._results({}, self._step.get("observation"), source)

    def _output(self, message: dict[str, Any], content_text: str, source: dict[str, Any]) -> Operation:
        calls, renamed = self._calls.add_output(source_calls(message))
        command, thought = text(message.get("action")), text(message.get("thought"))
        is_text = not calls and bool(command.strip())
        self._is_open = bool(calls) or is_text
        body = ModelOutput(
            thoughts=thought if thought and (is_text or thought.strip() != content_text.strip()) else None,
            text="" if is_text else content_text,
            tool_calls=calls,
            use_tool=UseTool(name=_SHELL, arguments={"command": command}) if is_text else None,
            reasoning=listing(message.get("thinking_blocks")),
            raw_message={"role": "assistant", "content": message.get("content")} if is_text else None,
        )
        return self._append(body, source | present_fields(call_ids=renamed))

    def _results(self, message: dict[str, Any], outputs: Any, source: dict[str, Any]) -> Operation:
        ids = listing(message.get("tool_call_ids")) or [message.get("tool_call_id")]
        results = []
        for id in ids:
            call_id, name = self._calls.match_result(id)
            name = name or (_SHELL if call_id is None else None)
            results.append(tool_result(call_id, name, outputs))
        self._is_open = self._calls.has_open
        observation = text(self._step.get("observation"))
        is_hidden = observation.strip() not in plain_text(outputs)  # the model saw another text
        facts = present_fields(
            execution_time=self._step.get("execution_time"),
            state=_parsed(self._step.get("state")),
            observation=observation if is_hidden else None,
        )
        return self._append(ToolResults(results=tuple(results)), source, facts)

    def _append(self, body: Body, source: dict[str, Any], facts: dict[str, Any] | None = None) -> Append:
        return Append(self._session, EntryDraft(body, metadata={**(facts or {}), "source": source}))
