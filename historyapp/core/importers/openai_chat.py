"""OpenAI chat messages in several forms.

A list; an object with ``messages``, and with ``response`` in OpenHands' logs of model calls; a tau-bench run
or a list of runs; recorded requests and responses, which repeat earlier messages; JSON lines of any of these.
"""

from collections.abc import Iterator
from typing import Any

from historyapp.core.importers.base import Head, Operation, Skipped, Source
from historyapp.core.importers.chat_messages import (
    ChatMessagesReader,
    message_key,
    source_calls,
    split_instruction,
)
from historyapp.core.importers.event_streams import streamed_message
from historyapp.core.importers.exchanges import Dialect, Exchange, import_exchanges, require_entries
from historyapp.core.importers.messages import moment, session_of, title_of, usage_facts
from historyapp.core.importers.records import head_of, present_fields, read_lines, records
from historyapp.core.json import dump_json, listing, mapping, text

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TAU_ERROR = "Error:"
"""The start of a failed tool's output in tau-bench, which does not mark failures otherwise."""


class _OpenAIChat:
    name = "openai_chat"
    title = "OpenAI chat messages"

    def recognises(self, head: Head) -> bool:
        if isinstance(head.document, list):
            return _is_chat(head.document) or any(map(_is_conversation, head.document[:20]))
        return any(map(_is_conversation, [head.document, *head.lines]))

    def read(self, source: Source) -> Iterator[Operation]:
        head = head_of(source)
        is_tau = any(
            "traj" in mapping(item) for item in [head.document, *listing(head.document)[:20], *head.lines]
        )
        dialect = Dialect(
            self.name,
            lambda session: ChatMessagesReader(
                session, lambda output: is_tau and output.startswith(_TAU_ERROR)
            ),
            message_key,
            lambda message: [tool_call.id for tool_call in source_calls(message)],
        )
        yield from require_entries(
            import_exchanges(_exchanges(source, head), dialect, session_of(source)), source, self.title
        )


def _is_chat(messages: Any) -> bool:
    """Whether a value is a list of chat messages. At least half of them must be valid."""
    if not isinstance(messages, list):
        return False
    valid_messages = 0
    for message in map(mapping, messages[:50]):
        role, content = message.get("role"), message.get("content")
        is_text = isinstance(content, (str, list)) or (content is None and role == "assistant")
        valid_messages += is_text and role in _ROLES
    return valid_messages > 0 and valid_messages * 2 >= len(messages[:50])


def _is_conversation(record: Any) -> bool:
    record = mapping(record)
    if "request" in record:
        return _is_chat(mapping(record["request"]).get("messages"))
    return _is_chat(record.get("traj")) or _is_chat(record.get("messages"))


def _exchanges(source: Source, head: Head) -> Iterator[Exchange | Skipped]:
    file, document = session_of(source), head.document
    if isinstance(document, list) and not any(map(_is_conversation, document)):
        yield _logged({"messages": document}, 0, file)
        return
    if document is not None and not isinstance(document, list):
        yield _exchange(mapping(document), 0, file)
        return
    session_ids: set[str] = set()
    for item in read_lines(source.stream) if document is None else records(document):
        if isinstance(item, Skipped):
            yield item
            continue
        run, trial = item.data.get("task_id"), item.data.get("trial")
        name = f"{file}#{item.number}" if run is None else f"{file}#task-{run}-trial-{trial}"
        name = f"{file}#{item.number}" if name in session_ids else name
        session_ids.add(name)
        yield _exchange(item.data, item.number, name)


def _exchange(record: dict[str, Any], index: int, session: str) -> Exchange | Skipped:
    if "request" in record:
        return _recorded_call(record, index)
    if isinstance(record.get("traj"), list):
        return _tau_run(record, index, session)
    if isinstance(record.get("messages"), list):
        return _logged(record, index, session)
    return Skipped(index or 1, "no messages", damaged=False)


def _tau_run(record: dict[str, Any], index: int, session: str) -> Exchange:
    all_messages = record["traj"]
    instruction, messages = split_instruction(all_messages)
    return Exchange(
        messages,
        offset=len(all_messages) - len(messages),
        index=index,
        instruction=instruction,
        session=session,
        tags=("tau-bench",),
        metadata=present_fields(
            **{name: record.get(name) for name in ("task_id", "trial", "reward", "info")}
        ),
    )


def _logged(record: dict[str, Any], index: int, session: str) -> Exchange:
    all_messages = _with_calls(record["messages"], listing(record.get("raw_messages")))
    instruction, messages = split_instruction(all_messages)
    # A model without tool calling has two responses: one with tool calls and ids, and the original text.
    response, raw_response = mapping(record.get("response")), mapping(record.get("raw_response"))
    reply, facts = _reply(response)
    if reply is None:
        response, (reply, facts) = raw_response, _reply(raw_response)
    else:
        facts |= present_fields(as_written=text(mapping(_reply(raw_response)[0]).get("content")))
    # The raw messages do not have the examples for a model without tool calling.
    raw = map(mapping, listing(record.get("raw_messages")))
    task = next((message.get("content") for message in raw if message.get("role") == "user"), "")
    return Exchange(
        messages,
        offset=len(all_messages) - len(messages),
        index=index,
        instruction=instruction,
        reply=reply,
        reply_facts=facts | present_fields(cost=record.get("cost"), latency=record.get("latency_sec")),
        replied_at=moment(record.get("timestamp")) or moment(response.get("created")),
        session=session,
        title=title_of(task),
        model=text(response.get("model")) or text(record.get("model")),
        metadata=present_fields(tools=record.get("tools")),
    )


def _with_calls(sent: list[Any], raw: list[Any]) -> list[Any]:
    """The messages sent to a model without tool calling, with tool calls and results from ``raw``.

    ``raw`` has the same messages before tool calls became text, and its results have tool call ids.
    """
    if len(raw) != len(sent):
        return sent
    merged = []
    for message, raw_message in zip(sent, raw, strict=True):
        uses_tools = mapping(raw_message).get("role") == "tool" or source_calls(mapping(raw_message))
        merged.append(raw_message if uses_tools else message)
    return merged


def _recorded_call(record: dict[str, Any], index: int) -> Exchange | Skipped:
    request, raw = mapping(record["request"]), record.get("response")
    if not _is_chat(request.get("messages")):
        return Skipped(index or 1, "not a chat completion request", damaged=False)
    if isinstance(raw, str):
        raw = streamed_message(raw) or {}
    all_messages = request["messages"]
    instruction, messages = split_instruction(all_messages)
    response = mapping(raw)
    reply, facts = _reply(response)
    failure = ""
    if not reply and response.get("error"):
        failure = dump_json(response["error"])
    elif not reply and raw is not None:
        failure = f"no readable response, status {dump_json(record.get('status'))}"
    return Exchange(
        messages,
        offset=len(all_messages) - len(messages),
        index=index,
        instruction=instruction,
        reply=reply,
        reply_facts=facts,
        replied_at=moment(response.get("created")),
        failure=failure,
        model=text(response.get("model")) or text(request.get("model")),
        metadata=present_fields(tools=request.get("tools")),
    )


def _reply(response: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The assistant message of a response, and its metadata."""
    choices = [mapping(choice) for choice in listing(response.get("choices"))]
    message = mapping(choices[0].get("message")) if choices else {}
    if not message:
        return None, {}
    source = present_fields(id=response.get("id"), finish_reason=choices[0].get("finish_reason"))
    facts = present_fields(other_choices=choices[1:], model=response.get("model"), source=source)
    return {**message, "role": "assistant"}, usage_facts(response.get("usage"), "openai") | facts


OPENAI_CHAT = _OpenAIChat()
