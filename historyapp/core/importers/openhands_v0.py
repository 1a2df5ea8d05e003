"""Events of OpenHands V0 as entries.

An action and its observation both have the model's whole response in ``tool_call_metadata``. The first action
of a response becomes an output with all its tool calls. Agents without tool calling use ``action`` and
``args``.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any

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
from historyapp.core.importers.chat_messages import ChatMessagesReader
from historyapp.core.importers.messages import moment, title_of, tool_result, usage_facts
from historyapp.core.importers.records import present_fields
from historyapp.core.json import dump_json, listing, mapping, text

_LOGGED = {
    "recall", "change_agent_state", "agent_state_changed", "null", "condensation", "condensation_request",
    "condense", "loop_recovery", "task_tracking_state",
}  # fmt: skip
"""Actions and observations outside the conversation with the model."""
_ENVELOPE = {
    "id", "timestamp", "source", "message", "action", "observation", "cause", "timeout", "thought",
    "tool_call_metadata", "llm_metrics", "is_confirmed",
}  # fmt: skip
_INTERNAL = {
    "thought", "impl_source", "translated_ipython_code", "confirmation_state", "security_risk", "hidden",
}  # fmt: skip
_QUARTER = 15 * 60
_FURTHEST_ZONE = 15 * 3600


def is_event(record: dict[str, Any]) -> bool:
    if isinstance(record.get("action"), str):
        return isinstance(record.get("args"), dict)
    return isinstance(record.get("observation"), str) and "content" in record and "extras" in record


def facts_of(events: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The session's ``title`` and ``model``, if they are in its events."""
    facts: dict[str, str] = {}
    for event in events:
        if event.get("action") == "message" and event.get("source", "user") == "user":
            facts.setdefault("title", title_of(_content(mapping(event.get("args")) or event)))
        if model := text(_response(event).get("model")):
            facts.setdefault("model", model)
    return facts


def zone_of(events: Iterable[dict[str, Any]]) -> tzinfo:
    """The time zone of the events. They have local times only, but their responses have Unix times."""
    for event in events:
        local, responded = moment(event.get("timestamp"), UTC), moment(_response(event).get("created"))
        if local and responded and "action" in event:
            offset = round((local - responded).total_seconds() / _QUARTER) * _QUARTER
            if abs(offset) < _FURTHEST_ZONE:
                return timezone(timedelta(seconds=offset))
    return UTC


class V0EventReader:
    """Reads the events of one session, in order."""

    def __init__(self, session: str, zone: tzinfo = UTC) -> None:
        self._chat = ChatMessagesReader(session)
        self._zone = zone
        self._has_task = False
        self._response_ids: set[str] = set()
        """Ids of the responses that were read."""
        self._pending_action = ""
        """The newest action without a tool call, until its observation."""

    def drafts(self, event: dict[str, Any]) -> Iterator[EntryDraft]:
        """The entries of an event. None for a further action of a response that has been read."""
        name = text(event.get("observation")) or text(event.get("action"))
        args = mapping(event.get("args"))
        if name == "condensation" and args:
            yield self._condensed(event, args)
        elif name in _LOGGED or not name:
            yield self._draft(DebugLog(category=name or "event", message=_note(event)), event)
        elif "observation" in event:
            yield self._observation(event, name)
        elif name == "system":
            body = SystemInstruction(text=text(args.get("content")))
            yield self._draft(body, event, present_fields(tools=args.get("tools")))
        elif event.get("source") == "user" or (name == "message" and self._is_first(event)):
            yield self._input(event, name, args)
        elif listing(_response(event).get("choices")):
            yield from self._outputs(event)
        else:
            yield self._call_in_text(event, name, args)

    def _condensed(self, event: dict[str, Any], args: dict[str, Any]) -> EntryDraft:
        """A condensation: the ids of the events that left the context, or their range, and their summary."""
        summary = text(args.get("summary"))
        condensed = present_fields(
            forgotten=args.get("forgotten_event_ids"),
            first=args.get("forgotten_events_start_id"),
            last=args.get("forgotten_events_end_id"),
            summarised=bool(summary) or None,
        )
        log = DebugLog(category="condensation", message=summary or _note(event))
        return self._draft(log, event, source=present_fields(condensed=condensed))

    def _is_first(self, event: dict[str, Any]) -> bool:
        """Whether the event is the task in the earliest versions, which did not record the source."""
        first, self._has_task = not self._has_task, True
        return first and "source" not in event

    def _input(self, event: dict[str, Any], name: str, args: dict[str, Any]) -> EntryDraft:
        if name != "message":
            return self._draft(DebugLog(category=f"user_{name}", message=_note(event)), event)
        images = [{"type": "image", "url": url} for url in listing(args.get("image_urls")) if text(url)]
        prompt = _content(args or event)
        content: Any = [{"type": "text", "text": prompt}, *images] if images else prompt
        return self._draft(ModelInput(content=content), event)

    def _outputs(self, event: dict[str, Any]) -> Iterator[EntryDraft]:
        """The output for a response, with all its tool calls, once."""
        response = _response(event)
        id = text(response.get("id"))
        if id and id in self._response_ids:
            return
        self._response_ids.add(id)
        message = mapping(mapping(listing(response.get("choices"))[0]).get("message"))
        [draft] = self._chat.drafts({**message, "role": "assistant"})
        facts = usage_facts(response.get("usage"), "openai") | present_fields(model=response.get("model"))
        source = {**draft.metadata.get("source", {}), **present_fields(response_id=id)}
        yield self._draft(draft.body, event, facts, source)

    def _call_in_text(self, event: dict[str, Any], name: str, args: dict[str, Any]) -> EntryDraft:
        self._chat.calls.add_output(())
        thought = text(args.get("thought")) or text(event.get("thought"))
        if name == "message":
            self._pending_action = ""
            body = ModelOutput(thoughts=thought or None, text=_content(args or event))
            return self._draft(body, event)
        self._pending_action = name
        fields = args or {key: value for key, value in event.items() if key not in _ENVELOPE}
        arguments = {key: value for key, value in fields.items() if key not in _INTERNAL}
        body = ModelOutput(thoughts=thought or None, use_tool=UseTool(name=name, arguments=arguments))
        return self._draft(body, event)

    def _observation(self, event: dict[str, Any], name: str) -> EntryDraft:
        tool_call = mapping(event.get("tool_call_metadata"))
        if not tool_call and name == "error" and not self._pending_action:
            return self._draft(DebugLog(category="error", message=_note(event)), event)
        id = tool = None
        if tool_call:
            id, tool = self._chat.calls.match_result(
                tool_call.get("tool_call_id"), tool_call.get("function_name")
            )
        tool = tool or self._pending_action or name
        self._pending_action = self._pending_action if tool_call else ""
        content, extras = _content(event), mapping(event.get("extras"))
        codes = [fields.get("exit_code") for fields in (mapping(extras.get("metadata")), extras, event)]
        failed = name == "error" or event.get("success") is False
        failed = failed or any(code not in (None, 0) for code in codes)
        if name == "user_rejected":
            result = tool_result(id, tool, feedback=content)
        else:
            result = tool_result(id, tool, content, error=(content or "failed") if failed else None)
        return self._draft(ToolResults(results=(result,)), event, present_fields(extras=event.get("extras")))

    def _draft(
        self,
        body: Body,
        event: dict[str, Any],
        facts: dict[str, Any] | None = None,
        source: dict[str, Any] | None = None,
    ) -> EntryDraft:
        own = present_fields(id=event.get("id"), timestamp=event.get("timestamp"), cause=event.get("cause"))
        at = moment(event.get("timestamp"), self._zone)
        return EntryDraft(body, at, {**(facts or {}), "source": {**own, **(source or {})}})


def _response(event: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(event.get("tool_call_metadata")).get("model_response"))


def _content(fields: dict[str, Any]) -> str:
    """The content, which may be empty. ``message`` is only a description for users."""
    content = fields.get("content")
    return content if isinstance(content, str) else text(fields.get("message"))


def _note(event: dict[str, Any]) -> str:
    """The text of an event outside the conversation."""
    note = text(event.get("content")) or text(event.get("message"))
    detail = {**mapping(event.get("args")), **mapping(event.get("extras"))}
    return note or (dump_json(detail) if detail else "")
