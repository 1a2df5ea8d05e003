"""OpenAI chat message lists, in the shapes people keep them in.

A bare list; an object with ``messages`` (and ``response``, as OpenHands logs its model calls); a tau-bench
run or a list of them; recorded requests and responses, which repeat their prefix; JSON lines of any of these.
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
"""How tau-bench's tools begin what they say when they fail; nothing else marks it."""


class _OpenAIChat:
    name = "openai_chat"
    title = "OpenAI chat messages"

    def recognises(self, head: Head) -> bool:
        if isinstance(head.document, list):
            return _is_chat(head.document) or any(map(_is_conversation, head.document[:20]))
        return any(map(_is_conversation, [head.document, *head.lines]))

    def read(self, source: Source) -> Iterator[Operation]:
        head = head_of(source)
        tau = any(
            "traj" in mapping(item) for item in [head.document, *listing(head.document)[:20], *head.lines]
        )
        dialect = Dialect(
            self.name,
            lambda session: ChatMessagesReader(session, lambda output: tau and output.startswith(_TAU_ERROR)),
            message_key,
            lambda message: [call.id for call in source_calls(message)],
        )
        yield from require_entries(
            import_exchanges(_exchanges(source, head), dialect, session_of(source)), source, self.title
        )


def _is_chat(messages: Any) -> bool:
    """Whether a value is a list of chat messages; up to half of them may be broken."""
    if not isinstance(messages, list):
        return False
    messages_seen = 0
    for message in map(mapping, messages[:50]):
        role, content = message.get("role"), message.get("content")
        is_text = isinstance(content, (str, list)) or (content is None and role == "assistant")
        messages_seen += is_text and role in _ROLES
    return messages_seen > 0 and messages_seen * 2 >= len(messages[:50])


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
    named: set[str] = set()
    for item in read_lines(source.stream) if document is None else records(document):
        if isinstance(item, Skipped):
            yield item
            continue
        run, trial = item.data.get("task_id"), item.data.get("trial")
        name = f"{file}#{item.number}" if run is None else f"{file}#task-{run}-trial-{trial}"
        name = f"{file}#{item.number}" if name in named else name
        named.add(name)
        yield _exchange(item.data, item.number, name)


def _exchange(record: dict[str, Any], index: int, session: str) -> Exchange | Skipped:
    if "request" in record:
        return _recorded_call(record, index)
    if isinstance(record.get("traj"), list):
        return _tau_run(record, index, session)
    if isinstance(record.get("messages"), list):
        return _logged(record, index, session)
    return Skipped(index or 1, "no messages in it", damaged=False)


def _tau_run(record: dict[str, Any], index: int, session: str) -> Exchange:
    listed = record["traj"]
    instruction, messages = split_instruction(listed)
    return Exchange(
        messages,
        offset=len(listed) - len(messages),
        index=index,
        instruction=instruction,
        session=session,
        tags=("tau-bench",),
        metadata=present_fields(
            **{name: record.get(name) for name in ("task_id", "trial", "reward", "info")}
        ),
    )


def _logged(record: dict[str, Any], index: int, session: str) -> Exchange:
    listed = _with_calls(record["messages"], listing(record.get("raw_messages")))
    instruction, messages = split_instruction(listed)
    # Where the model had no tool calling, its answer is there twice: with its calls and ids, and as text.
    response, written = mapping(record.get("response")), mapping(record.get("raw_response"))
    reply, facts = _reply(response)
    if reply is None:
        response, (reply, facts) = written, _reply(written)
    else:
        facts |= present_fields(as_written=text(mapping(_reply(written)[0]).get("content")))
    # Messages without the examples that a model without tool calling is given.
    raw = map(mapping, listing(record.get("raw_messages")))
    task = next((message.get("content") for message in raw if message.get("role") == "user"), "")
    return Exchange(
        messages,
        offset=len(listed) - len(messages),
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
    """What was sent to a model without tool calling, with calls and results as they were before.

    ``raw`` has the same messages before calls were turned into text; its results name the call they answer.
    """
    if len(raw) != len(sent):
        return sent
    merged = []
    for before, after in zip(sent, raw, strict=True):
        uses_tools = mapping(after).get("role") == "tool" or source_calls(mapping(after))
        merged.append(after if uses_tools else before)
    return merged


def _recorded_call(record: dict[str, Any], index: int) -> Exchange | Skipped:
    request, response = mapping(record["request"]), record.get("response")
    if not _is_chat(request.get("messages")):
        return Skipped(index or 1, "not a chat completion request", damaged=False)
    if isinstance(response, str):
        response = streamed_message(response) or {}
    listed = request["messages"]
    instruction, messages = split_instruction(listed)
    answer = mapping(response)
    reply, facts = _reply(answer)
    failure = ""
    if not reply and answer.get("error"):
        failure = dump_json(answer["error"])
    elif not reply and response is not None:
        failure = f"no readable response, status {dump_json(record.get('status'))}"
    return Exchange(
        messages,
        offset=len(listed) - len(messages),
        index=index,
        instruction=instruction,
        reply=reply,
        reply_facts=facts,
        replied_at=moment(answer.get("created")),
        failure=failure,
        model=text(answer.get("model")) or text(request.get("model")),
        metadata=present_fields(tools=request.get("tools")),
    )


def _reply(response: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The assistant message of a response, and the response's other facts about it."""
    choices = [mapping(choice) for choice in listing(response.get("choices"))]
    message = mapping(choices[0].get("message")) if choices else {}
    if not message:
        return None, {}
    source = present_fields(id=response.get("id"), finish_reason=choices[0].get("finish_reason"))
    facts = present_fields(other_choices=choices[1:], model=response.get("model"), source=source)
    return {**message, "role": "assistant"}, usage_facts(response.get("usage"), "openai") | facts


OPENAI_CHAT = _OpenAIChat()
