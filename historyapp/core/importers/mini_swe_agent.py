"""mini-swe-agent trajectories (``*.traj.json``): OpenAI chat messages with further facts in ``extra``.

Since version 1 the file is an object with ``messages`` and ``info``; before, it was a list of messages.
Models without tool calling write their command into a fenced block, and the next user message is its result.
"""

import re
from collections.abc import Iterator
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import DebugLog, EntryDraft, ModelInput, ModelOutput, ToolResults, UseTool
from historyapp.core.importers.base import Append, Head, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.chat_messages import ChatMessagesReader
from historyapp.core.importers.exchanges import require_entries
from historyapp.core.importers.messages import (
    moment,
    session_of,
    title_of,
    tool_result,
    usage_facts,
    with_source,
)
from historyapp.core.importers.records import present_fields, read_document, records
from historyapp.core.json import listing, mapping, text
from historyapp.core.scanning import enclosed, without_enclosed

_SHELL = "bash"
_COMMAND = re.compile(r"```(?:mswea_bash_command|bash)\s*\n")
_END_OF_COMMAND = re.compile("\n?```")
_RETURN_CODE = re.compile(r"\s*<returncode>\s*(-?\d+)\s*</returncode>")
_TASK = re.compile(
    r"(?:Consider the following PR description:|Please solve this issue:|Your task:)\s*(.+)", re.DOTALL
)
_SUBMITTED = "Submitted"


class _MiniSweAgent:
    name = "mini_swe_agent"
    title = "mini-swe-agent trajectory"

    def recognises(self, head: Head) -> bool:
        if isinstance(head.document, list):
            return _is_text_run(head.document)
        document = mapping(head.document)
        if text(document.get("trajectory_format")).startswith("mini-swe-agent"):
            return True
        return "mini_version" in mapping(document.get("info")) and isinstance(document.get("messages"), list)

    def read(self, source: Source) -> Iterator[Operation]:
        document = read_document(source)
        document = {"messages": document} if isinstance(document, list) else mapping(document)
        yield from require_entries(_operations(document, session_of(source)), source, self.title)


MINI_SWE_AGENT = _MiniSweAgent()


def _is_text_run(messages: list[Any]) -> bool:
    """Whether a list of messages is a run: it has a fenced command, or a result with a return code."""
    for message in map(mapping, messages[:50]):
        content = text(message.get("content"))
        if message.get("role") == "assistant" and "```mswea_bash_command" in content:
            return True
        if message.get("role") == "user" and _RETURN_CODE.match(content):
            return True
    return False


def _operations(document: dict[str, Any], session: str) -> Iterator[Operation]:
    messages, info = listing(document.get("messages")), mapping(document.get("info"))
    yield _start(document, messages, info, session)
    run = _MiniSweAgentRun(session)
    for record in records(messages):
        if isinstance(record, Skipped):
            yield record
            continue
        try:
            draft = run.draft(record.data)
        except ValueError as fault:
            yield Skipped(record.number, str(fault))
            continue
        at = moment(mapping(record.data.get("extra")).get("timestamp"))
        source = {"format": MINI_SWE_AGENT.name, "index": record.number}
        yield Append(session, with_source(draft, source, at))
    if trace := text(info.get("traceback")) or text(info.get("exception_str")):
        body = DebugLog(category="exit", message=f"{text(info.get('exit_status'))}\n{trace}".strip())
        draft = EntryDraft(body, metadata={"source": {"format": MINI_SWE_AGENT.name}})
        yield Append(session, draft, provisional=True)


def _start(document: dict[str, Any], messages: list[Any], info: dict[str, Any], session: str) -> SessionStart:
    task_message = next((mapping(m) for m in messages if mapping(m).get("role") == "user"), {})
    prompt = plain_text(neutral_content(task_message.get("content")))
    task = _TASK.search(prompt)
    config = mapping(info.get("config"))
    return SessionStart(
        session,
        title=title_of((task[1] if task else prompt).strip().split("\n")[0]),
        agent="mini-swe-agent",
        model=text(mapping(config.get("model")).get("model_name")),
        metadata=present_fields(
            instance_id=document.get("instance_id"),
            version=info.get("mini_version"),
            exit_status=info.get("exit_status"),
            submission=info.get("submission"),
            model_stats=info.get("model_stats"),
            environment=config.get("environment"),
        ),
    )


class _MiniSweAgentRun:
    """Reads the messages of a run, in order."""

    def __init__(self, session: str) -> None:
        self._chat = ChatMessagesReader(session)
        self._has_text_call = False
        """Whether the newest output has a command as text without a result."""

    def draft(self, raw: dict[str, Any]) -> EntryDraft:
        """The entry of a message.

        Raises:
            ValueError: if the message has no role.
        """
        extra = mapping(raw.get("extra"))
        is_by_user = text(extra.get("interrupt_type")).startswith("User")
        [draft] = self._chat.drafts({name: value for name, value in raw.items() if name != "extra"})
        is_open = self._has_text_call or self._chat.calls.has_open
        match draft.body:
            case ModelOutput() as output:
                self._has_text_call = bool(text_call := _with_text_call(output, extra))
                response = mapping(extra.get("response"))
                facts = usage_facts(response.get("usage"), "openai") | present_fields(cost=extra.get("cost"))
                source = {**draft.metadata.get("source", {}), **present_fields(id=response.get("id"))}
                return EntryDraft(text_call or output, metadata={**facts, "source": source})
            case ToolResults() as results:
                return _with_status(results, extra)
            case ModelInput(channel="exit") as message:
                return self._exit(message, extra)
            case ModelInput(channel="user") as message if is_by_user and is_open:
                return EntryDraft(self._results(feedback=plain_text(message.content)))
            case ModelInput(channel="user") as message if self._has_text_call:
                return _with_status(self._results(message.content), extra)
            case ModelInput() as message if extra.get("interrupt_type"):
                body = message.model_copy(update={"channel": "environment"})
                return EntryDraft(body, metadata=present_fields(extra=extra))
            case _:
                return draft

    def _results(
        self, outputs: Any = None, *, error: str | None = None, feedback: str | None = None
    ) -> ToolResults:
        """One result for each open tool call of the newest output."""
        tool_calls: list[tuple[str | None, str]] = [*self._chat.calls.match_open()] or [(None, _SHELL)]
        self._has_text_call = False
        results = [
            tool_result(*tool_call, outputs, error=error, feedback=feedback) for tool_call in tool_calls
        ]
        return ToolResults(results=tuple(results))

    def _exit(self, message: ModelInput, extra: dict[str, Any]) -> EntryDraft:
        """The end of the run: the result of the last command if it has none, or else a log entry."""
        status = text(extra.get("exit_status"))
        content = plain_text(message.content)
        if not (self._has_text_call or self._chat.calls.has_open):
            return EntryDraft(DebugLog(category="exit", message=f"{status}\n{content}".strip()))
        failed = status not in ("", _SUBMITTED)
        body = self._results(error=content or status) if failed else self._results(content)
        return EntryDraft(body, metadata=present_fields(exit_status=status))


def _with_text_call(output: ModelOutput, extra: dict[str, Any]) -> ModelOutput | None:
    """The output with the command of its fenced block, or None if it has none."""
    if output.tool_calls:
        return None
    actions = [mapping(action) for action in listing(extra.get("actions"))]
    commands = [text(action.get("command")) or text(action.get("action")) for action in actions]
    fenced = list(enclosed(output.text, _COMMAND, _END_OF_COMMAND))
    if not commands and len(fenced) == 1:
        commands = [fenced[0].inside]
    if not commands:
        return None
    arguments = {"command": commands[0]} if len(commands) == 1 else {"commands": commands}
    return output.model_copy(
        update={
            "thoughts": without_enclosed(output.text, fenced).strip() or None,
            "text": "",
            "use_tool": UseTool(name=_SHELL, arguments=arguments),
            "raw_message": {"role": "assistant", "content": output.text},
        }
    )


def _with_status(body: ToolResults, extra: dict[str, Any]) -> EntryDraft:
    """The result with its status. Its metadata has what the model did not see."""
    [result] = body.results
    output = plain_text(result.outputs)
    code = extra.get("returncode")
    if code is None and (match := _RETURN_CODE.match(output)):
        code = int(match[1][:9])
    if code not in (None, 0) or extra.get("exception_info"):
        reason = output or f"return code {code}"
        result = tool_result(result.tool_call_id, result.tool_name, error=reason)
    raw = text(extra.get("raw_output"))
    facts = present_fields(
        returncode=code,
        exception_info=extra.get("exception_info"),
        raw_output=raw if raw.strip() not in output else None,
    )
    return EntryDraft(ToolResults(results=(result,)), metadata=facts)
