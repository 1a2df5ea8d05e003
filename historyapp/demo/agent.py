"""The demo's agent. Its decisions are scripted; its tools are real."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from historyapp.core.actions import from_exception
from historyapp.core.json import dump_json
from historyapp.demo.recorder import DemoRecorder
from historyapp.demo.tools import FailedTests, Toolbox

MODEL = "scripted-1"
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ScriptedToolCall:
    """A tool call to make."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of the agent's folder and memory at one moment."""

    files: Mapping[str, bytes]
    tokens: int


class ScriptedAgent:
    """Runs its tools, and records each action before and each result after it."""

    def __init__(self, session: DemoRecorder, tools: Toolbox) -> None:
        self.session = session
        self.tools = tools
        self._tokens = 0
        self._outputs = 0

    @classmethod
    def start(cls, api: httpx.Client, name: str, tools: Toolbox, **fields: Any) -> "ScriptedAgent":
        """An agent with a new session; see :meth:`DemoRecorder.begin`."""
        return cls(DemoRecorder.begin(api, name, model=MODEL, **fields), tools)

    def begin(self, instruction: str, notebook: str, task: str) -> None:
        """Records the session's first entries in one request."""
        self._record(
            {"kind": "system_instruction", "text": instruction},
            {"kind": "memory_notebook", "content": notebook},
            {"kind": "model_input", "content": task},
        )

    def receive(self, text: str) -> None:
        """Records a message of the user."""
        self._record({"kind": "model_input", "content": text})

    def write_notebook(self, content: str) -> None:
        """Replaces the notebook."""
        self._record({"kind": "memory_notebook", "content": content})

    def act(self, thoughts: str, name: str, **arguments: str) -> dict[str, Any]:
        """Proposes an action, executes it, and records the result. Returns the result as sent to the API."""
        self.propose(thoughts, name, **arguments)
        result = self._execute(ScriptedToolCall(name, arguments))
        self.session.post("results", **result)
        return result

    def propose(self, thoughts: str, name: str, **arguments: str) -> None:
        """Records an action without executing it."""
        use_tool = {"name": name, "arguments": arguments}
        usage = self._usage(thoughts, use_tool)
        self.session.post("actions", thoughts=thoughts, use_tool=use_tool, metadata=usage)

    def interrupt(self, feedback: str) -> None:
        """Records that the user stopped the proposed action."""
        self._tokens += _tokens(feedback)
        self.session.post("results", status="interrupted_by_human", feedback=feedback)

    def act_in_parallel(self, thoughts: str, *calls: ScriptedToolCall) -> None:
        """Runs several tool calls in one step."""
        self._outputs += 1
        tool_calls = [
            {"id": f"call_{self._outputs}_{number}", "name": call.name, "arguments": dict(call.arguments)}
            for number, call in enumerate(calls, start=1)
        ]
        usage = self._usage(thoughts, tool_calls)
        self._record(
            {"kind": "model_output", "thoughts": thoughts, "tool_calls": tool_calls, "metadata": usage}
        )
        results = [
            {"tool_call_id": tool_call["id"], "tool_name": call.name, **self._execute(call)}
            for tool_call, call in zip(tool_calls, calls, strict=True)
        ]
        self._record({"kind": "tool_results", "results": results})

    def answer(self, thoughts: str, text: str) -> None:
        """Records a final answer, which has no tool call."""
        usage = self._usage(thoughts, text)
        self._record({"kind": "model_output", "thoughts": thoughts, "text": text, "metadata": usage})

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.tools.files(), self._tokens)

    def return_to(self, checkpoint: Checkpoint) -> None:
        """Restores the folder and the memory of a checkpoint."""
        self.tools.fill(checkpoint.files)
        self._tokens = checkpoint.tokens

    def _execute(self, scripted_call: ScriptedToolCall) -> dict[str, Any]:
        """Runs a tool. Its result may be an error that the tool raised."""
        try:
            output = self.tools.run(scripted_call.name, scripted_call.arguments)
        except Exception as error:  # noqa: BLE001  (a tool may raise anything)
            reason = error.output if isinstance(error, FailedTests) else str(error)
            self._tokens += _tokens(reason)
            return {"status": "error", "reason": reason, "error": from_exception(error).model_dump()}
        self._tokens += _tokens(output)
        return {"status": "success", "outputs": output}

    def _record(self, *entries: dict[str, Any]) -> None:
        messages = (entry for entry in entries if entry["kind"] != "model_output")
        self._tokens += sum(_tokens(entry.get("text") or entry.get("content") or "") for entry in messages)
        self.session.post("entries", entries=entries)

    def _usage(self, thoughts: str, output: Any) -> dict[str, Any]:
        """An estimate of the usage that a provider would have billed. No model is called."""
        written = _tokens(thoughts) + _tokens(dump_json(output))
        usage = {"input_tokens": self._tokens, "output_tokens": written}
        self._tokens += written
        return {"source": "demo", "model": MODEL, "usage": usage, "usage_is_estimated": True}


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
