"""mini-swe-agent trajectories (``*.traj.json``): OpenAI chat messages, each with an account in ``extra``.

Since version 1 the messages stand in an object beside ``info``; before, the file was the bare list. Models
without tool calling write their command into a fenced block, and the next user message is its result.
"""

import re
from collections.abc import Iterator
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import (
    DebugLog,
    EntryDraft,
    ModelInput,
    ModelOutput,
    ResultStatus,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.core.importers.base import Append, Head, Operation, SessionStart, Skipped, Source
from historyapp.core.importers.chat_messages import ChatReader
from historyapp.core.importers.exchanges import readable
from historyapp.core.importers.messages import moment, session_of, title_of, usage_facts
from historyapp.core.importers.records import known, read_document, records
from historyapp.core.json import listing, mapping, text

_SHELL = "bash"
_COMMAND = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n?```", re.DOTALL)
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
        yield from readable(_operations(document, session_of(source)), source, self.title)


MINI_SWE_AGENT = _MiniSweAgent()


def _is_text_run(messages: list[Any]) -> bool:
    """Whether a bare list is a run: a command in the agreed fence, or a result with its return code."""
    for message in map(mapping, messages[:50]):
        said = text(message.get("content"))
        if message.get("role") == "assistant" and "```mswea_bash_command" in said:
            return True
        if message.get("role") == "user" and _RETURN_CODE.match(said):
            return True
    return False


def _operations(document: dict[str, Any], session: str) -> Iterator[Operation]:
    messages, info = listing(document.get("messages")), mapping(document.get("info"))
    yield _start(document, messages, info, session)
    run = _Run(session)
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
        source = {"format": MINI_SWE_AGENT.name, "index": record.number, **draft.metadata.get("source", {})}
        yield Append(session, EntryDraft(draft.body, at, {**draft.metadata, "source": source}))
    if trace := text(info.get("traceback")) or text(info.get("exception_str")):
        body = DebugLog(category="exit", message=f"{text(info.get('exit_status'))}\n{trace}".strip())
        draft = EntryDraft(body, metadata={"source": {"format": MINI_SWE_AGENT.name}})
        yield Append(session, draft, provisional=True)


def _start(document: dict[str, Any], messages: list[Any], info: dict[str, Any], session: str) -> SessionStart:
    asked = next((mapping(m) for m in messages if mapping(m).get("role") == "user"), {})
    prompt = plain_text(neutral_content(asked.get("content")))
    task = _TASK.search(prompt)
    config = mapping(info.get("config"))
    return SessionStart(
        session,
        title=title_of((task[1] if task else prompt).strip().split("\n")[0]),
        agent="mini-swe-agent",
        model=text(mapping(config.get("model")).get("model_name")),
        metadata=known(
            instance_id=document.get("instance_id"),
            version=info.get("mini_version"),
            exit_status=info.get("exit_status"),
            submission=info.get("submission"),
            model_stats=info.get("model_stats"),
            environment=config.get("environment"),
        ),
    )


class _Run:
    """Reads the messages of a run, in order."""

    def __init__(self, session: str) -> None:
        self._chat = ChatReader(session)
        self._written = False
        """Whether the newest output has a command as text whose result has not come back."""

    def draft(self, message: dict[str, Any]) -> EntryDraft:
        """The entry that a message amounts to.

        Raises:
            ValueError: when the message has no role.
        """
        extra = mapping(message.get("extra"))
        [draft] = self._chat.drafts({name: value for name, value in message.items() if name != "extra"})
        match draft.body:
            case ModelOutput() as output:
                self._written = bool(written := _written(output, extra))
                return EntryDraft(written or output, metadata=_call_facts(extra, draft))
            case ToolResults() as results:
                return _judged(results, extra)
            case ModelInput(channel="exit") as said:
                return self._exit(said, extra)
            case ModelInput(channel="user") as said if self._awaits and _is_by_person(extra):
                return EntryDraft(self._answer("interrupted_by_human", plain_text(said.content)))
            case ModelInput(channel="user") as said if self._written:
                return _judged(self._answer("success", said.content), extra)
            case ModelInput() as said if extra.get("interrupt_type"):
                told = said.model_copy(update={"channel": "environment"})
                return EntryDraft(told, metadata=known(extra=extra))
            case _:
                return draft

    @property
    def _awaits(self) -> bool:
        return self._written or self._chat.calls.open

    def _answer(self, status: ResultStatus, said: Any) -> ToolResults:
        """One answer to everything that the newest output still waits for."""
        field = {"success": "outputs", "interrupted_by_human": "feedback"}.get(status, "reason")
        calls: list[tuple[str | None, str]] = [*self._chat.calls.answer_rest()] or [(None, _SHELL)]
        self._written = False
        return ToolResults(
            results=tuple(
                ToolResult.model_validate(
                    {"tool_call_id": call, "tool_name": name, "status": status, field: said}
                )
                for call, name in calls
            )
        )

    def _exit(self, said: ModelInput, extra: dict[str, Any]) -> EntryDraft:
        """The end of the run. It stands for the result of the last command, which has no other."""
        status = text(extra.get("exit_status"))
        content = plain_text(said.content)
        if not self._awaits:
            return EntryDraft(DebugLog(category="exit", message=f"{status}\n{content}".strip()))
        if status in ("", _SUBMITTED):
            body = self._answer("success", content)
        else:
            body = self._answer("error", content or status)
        return EntryDraft(body, metadata=known(exit_status=status))


def _written(output: ModelOutput, extra: dict[str, Any]) -> ModelOutput | None:
    """The output with its command, where that is a text in a fence; None where there is none."""
    if output.tool_calls:
        return None
    told = [mapping(action) for action in listing(extra.get("actions"))]
    commands = [text(action.get("command")) or text(action.get("action")) for action in told]
    fenced = _COMMAND.findall(output.text)
    if not commands and len(fenced) == 1:
        commands = fenced
    if not commands:
        return None
    arguments = {"command": commands[0]} if len(commands) == 1 else {"commands": commands}
    return output.model_copy(
        update={
            "thoughts": _COMMAND.sub("", output.text).strip() or None,
            "text": "",
            "use_tool": UseTool(name=_SHELL, arguments=arguments),
            "raw_message": {"role": "assistant", "content": output.text},
        }
    )


def _call_facts(extra: dict[str, Any], draft: EntryDraft) -> dict[str, Any]:
    response = mapping(extra.get("response"))
    return {
        **usage_facts(response.get("usage"), "openai"),
        **known(cost=extra.get("cost")),
        "source": {**draft.metadata.get("source", {}), **known(id=response.get("id"))},
    }


def _judged(body: ToolResults, extra: dict[str, Any]) -> EntryDraft:
    """The result with its status, and what the model was not shown of it."""
    [result] = body.results
    said = plain_text(result.outputs)
    code = extra.get("returncode")
    if code is None and (told := _RETURN_CODE.match(said)):
        code = int(told[1][:9])
    if code not in (None, 0) or extra.get("exception_info"):
        reason = said or f"return code {code}"
        result = ToolResult(
            tool_call_id=result.tool_call_id, tool_name=result.tool_name, status="error", reason=reason
        )
    raw = text(extra.get("raw_output"))
    facts = known(
        returncode=code,
        exception_info=extra.get("exception_info"),
        raw_output=raw if raw.strip() not in said else None,
    )
    return EntryDraft(ToolResults(results=(result,)), metadata=facts)


def _is_by_person(extra: dict[str, Any]) -> bool:
    return text(extra.get("interrupt_type")).startswith("User")
