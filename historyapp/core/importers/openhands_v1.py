"""Events of the OpenHands SDK (V1) as entries.

Each of several parallel tool calls is an ``ActionEvent`` with the same ``llm_response_id``. State updates
contain the totals of usage. The update with the usage of a response comes directly before it.
"""

import re
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from historyapp.core.content import neutral_content, plain_text
from historyapp.core.entries import (
    Body,
    DebugLog,
    EntryDraft,
    ModelInput,
    ModelOutput,
    SystemInstruction,
    ToolResult,
    ToolResults,
    text_of,
)
from historyapp.core.importers.messages import CallMatcher, SourceCall, moment, title_of, usage_facts
from historyapp.core.importers.records import present_fields
from historyapp.core.json import dump_json, listing, mapping, text
from historyapp.core.scanning import enclosed, without_enclosed

_THINKING, _END_OF_THINKING = re.compile("<think>"), re.compile(r"</think>\s*")
_COUNTERS = (
    "prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip
_MAX_TOTAL = 10**15
"""A larger total of tokens or dollars is not one. Sums of such totals may be infinite."""


def is_event(record: dict[str, Any]) -> bool:
    return isinstance(record.get("kind"), str) and {"id", "timestamp", "source"} <= set(record)


def facts_of(events: list[dict[str, Any]]) -> dict[str, str]:
    """The session's ``id``, ``title`` and ``model``, if they are in its first events."""
    facts: dict[str, str] = {}
    for event in events:
        value = mapping(event.get("value"))
        if event.get("key") == "full_state":
            facts.setdefault("id", text(value.get("id")))
            facts.setdefault("model", text(mapping(mapping(value.get("agent")).get("llm")).get("model")))
        for metrics in map(mapping, mapping(value.get("usage_to_metrics")).values()):
            facts.setdefault("model", text(metrics.get("model_name")))
        if event.get("kind") == "MessageEvent" and event.get("source") == "user":
            content = mapping(event.get("llm_message")).get("content")
            facts.setdefault("title", title_of(neutral_content(content)))
    return facts


class V1EventReader:
    """Reads the events of one session, in order."""

    def __init__(self, session: str) -> None:
        self._calls = CallMatcher(session)
        self._actions: list[dict[str, Any]] = []
        """The actions of the open response."""
        self._facts: dict[str, Any] = {}
        """Usage and cost of the open response."""
        self._totals: dict[str, float] = {}
        self._unassigned: dict[str, float] = {}

    def drafts(self, event: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of the event, after the output of a response that it ends."""
        if event.get("key") == "stats":
            self._add_totals(mapping(mapping(event.get("value")).get("usage_to_metrics")))
            return
        response = event.get("llm_response_id")
        is_action = event.get("kind") == "ActionEvent"
        if self._actions and not (
            is_action and response and response == self._actions[0].get("llm_response_id")
        ):
            yield self._output_of_actions()
        if is_action:
            self._facts = self._facts if self._actions else self._cost()
            self._actions.append(event)
        else:
            yield self._other(event)

    def last_output(self) -> Iterator[EntryDraft]:
        """The output of the response that is open after the last event."""
        if self._actions:
            yield self._output_of_actions()

    def _output_of_actions(self) -> EntryDraft:
        actions, self._actions = self._actions, []
        first = actions[0]
        source_calls = []
        for action in actions:
            tool_call = mapping(action.get("tool_call"))
            fields = mapping(action.get("action"))
            arguments = {name: value for name, value in fields.items() if name != "kind"}
            id = tool_call.get("id") or action.get("tool_call_id")
            name = tool_call.get("name") or action.get("tool_name")
            source_calls.append(SourceCall(id, name, tool_call.get("arguments", arguments)))
        calls, renamed = self._calls.add_output(source_calls)
        content = "".join(plain_text(neutral_content(action.get("thought"))) for action in actions)
        body = _output(first, content).model_copy(update={"tool_calls": calls})
        source = present_fields(
            ids=[action.get("id") for action in actions],
            llm_response_id=first.get("llm_response_id"),
            call_ids=renamed,
        )
        return _draft(
            body, first, source, {**self._facts, **present_fields(critic_result=first.get("critic_result"))}
        )

    def _other(self, event: dict[str, Any]) -> EntryDraft:
        match event.get("kind"):
            case "SystemPromptEvent":
                parts = (event.get("system_prompt"), event.get("dynamic_context"))
                prompt = "\n\n".join(text(mapping(part).get("text")) for part in parts if part)
                return _draft(
                    SystemInstruction(text=prompt), event, facts=present_fields(tools=event.get("tools"))
                )
            case "MessageEvent":
                return self._message(event)
            case "ObservationEvent":
                return self._result(event, *_outcome(mapping(event.get("observation"))))
            case "AgentErrorEvent":
                return self._result(event, "error", text(event.get("error")))
            case "UserRejectObservation":
                return self._result(event, "interrupted_by_human", text(event.get("rejection_reason")))
            case "Condensation":
                forgotten = present_fields(forgotten=event.get("forgotten_event_ids"))
                condensed = forgotten | ({"summarised": True} if text(event.get("summary")) else {})
                log = DebugLog(category="Condensation", message=_note(event))
                return _draft(log, event, present_fields(condensed=condensed))
            case kind:
                return _draft(DebugLog(category=text(kind), message=_note(event)), event)

    def _message(self, event: dict[str, Any]) -> EntryDraft:
        message = mapping(event.get("llm_message"))
        content = neutral_content([*listing(message.get("content")), *listing(event.get("extended_content"))])
        if event.get("source") == "agent":
            self._calls.add_output(())
            body = _output(message, text_of(content))
            return _draft(
                body, event, present_fields(llm_response_id=event.get("llm_response_id")), self._cost()
            )
        channel = text(event.get("source")) or "user"
        return _draft(
            ModelInput(channel=channel, content=content), event, present_fields(sender=event.get("sender"))
        )

    def _result(self, event: dict[str, Any], status: str, content: Any) -> EntryDraft:
        call_id, name = self._calls.match_result(event.get("tool_call_id"), event.get("tool_name"))
        field = {"success": "outputs", "interrupted_by_human": "feedback"}.get(status, "reason")
        result = {"tool_call_id": call_id, "tool_name": name, "status": status, field: content}
        observation = mapping(event.get("observation"))
        facts = present_fields(
            exit_code=observation.get("exit_code"),
            working_dir=mapping(observation.get("metadata")).get("working_dir"),
        )
        body = ToolResults(results=(ToolResult.model_validate(result),))
        return _draft(body, event, present_fields(action_id=event.get("action_id")), facts)

    def _add_totals(self, metrics: dict[str, Any]) -> None:
        """Reads new totals. The difference belongs to the next response."""
        totals: dict[str, float] = dict.fromkeys((*_COUNTERS, "cost"), 0)
        for usage_id, metric in metrics.items():
            if usage_id == "condenser":
                continue
            usage = mapping(mapping(metric).get("accumulated_token_usage"))
            values = {name: usage.get(name) for name in _COUNTERS}
            for name, value in {**values, "cost": mapping(metric).get("accumulated_cost")}.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    totals[name] += value if abs(value) <= _MAX_TOTAL else 0
        for name, total in totals.items():
            added = max(0, total - self._totals.get(name, 0))
            self._unassigned[name] = self._unassigned.get(name, 0) + added
        self._totals = totals

    def _cost(self) -> dict[str, Any]:
        spent, self._unassigned = self._unassigned, {}
        cost = spent.pop("cost", None)
        usage = {name: int(number) for name, number in spent.items()}
        return usage_facts(usage, "openai") | present_fields(cost=cost or None)


def _draft(
    body: Body,
    event: dict[str, Any],
    source: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
) -> EntryDraft:
    own = present_fields(id=event.get("id"), timestamp=event.get("timestamp"))
    # The time has no zone. Most machines run in UTC, and the original text is kept.
    at = moment(event.get("timestamp"), UTC)
    return EntryDraft(body, at, {**(facts or {}), "source": {**own, **(source or {})}})


def _output(fields: dict[str, Any], content: str) -> ModelOutput:
    """An output without tool calls. Some models repeat their reasoning in the content (``<think>``)."""
    thoughts = text(fields.get("reasoning_content"))
    thinking = list(enclosed(content, _THINKING, _END_OF_THINKING))
    inside = "\n\n".join(part.inside.strip() for part in thinking)
    if inside and (not thoughts or inside.strip() == thoughts.strip()):
        thoughts, content = thoughts or inside, without_enclosed(content, thinking).strip()
    reasoning = [*listing(fields.get("thinking_blocks")), fields.get("responses_reasoning_item")]
    blocks = [block for block in reasoning if block]
    return ModelOutput(thoughts=thoughts or None, text=content, reasoning=blocks)


def _outcome(observation: dict[str, Any]) -> tuple[str, Any]:
    """Status and text of an observation."""
    content = neutral_content(observation.get("content"))
    if not content:
        other_fields = {name: value for name, value in observation.items() if name not in ("content", "kind")}
        content = text(observation.get("output")) or (
            dump_json(other_fields) if "content" not in observation else ""
        )
    if observation.get("is_error") is True or observation.get("exit_code") not in (None, 0):
        return "error", plain_text(content) or f"exit code {observation.get('exit_code')}"
    return "success", content


def _note(event: dict[str, Any]) -> str:
    """The text of an event outside the conversation."""
    for name in ("summary", "detail", "error", "message", "reason"):
        if note := text(event.get(name)):
            return note
    if "value" in event:
        return f"{text(event.get('key'))}: {plain_text(event['value'])}"
    return dump_json(
        {name: value for name, value in event.items() if name not in ("id", "timestamp", "kind")}
    )
