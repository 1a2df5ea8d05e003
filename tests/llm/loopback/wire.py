"""Responses in the format of each provider: the whole message, and the same as a stream of events.

Sources: the types of the official SDKs (openai 3, anthropic 2) and the providers' streaming guides.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.llm.loopback.script import Answer, Refusal

Json = dict[str, Any]
Event = tuple[str | None, Json]
"""The name of a server-sent event, where the provider gives one, and its data."""

CREATED = 1_760_000_000


def answer_id(prefix: str, number: int) -> str:
    return f"{prefix}{number:024d}"


def chat_message(answer: Answer) -> Json:
    message: Json = {"role": "assistant", "content": answer.text or None, "refusal": answer.refusal or None}
    if not (answer.text or answer.refusal or answer.calls):
        message["content"] = ""
    if answer.thoughts:
        message["reasoning_content"] = answer.thoughts
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return message


def chat_usage(answer: Answer, sent: int) -> Json:
    return {
        "prompt_tokens": sent + answer.cached,
        "completion_tokens": 20,
        "total_tokens": sent + answer.cached + 20,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 7 if answer.thoughts else 0, "audio_tokens": 0},
    }


def chat_reason(answer: Answer) -> str:
    return answer.reason or ("tool_calls" if answer.calls else "stop")


def chat_whole(answer: Answer, number: int, model: str, sent: int) -> Json:
    choice = {
        "index": 0,
        "message": chat_message(answer),
        "logprobs": None,
        "finish_reason": chat_reason(answer),
    }
    return {
        **_chat_head(number, model, "chat.completion"),
        "choices": [choice],
        "usage": chat_usage(answer, sent),
    }


def _chat_head(number: int, model: str, kind: str) -> Json:
    id = answer_id("chatcmpl-", number)
    return {"id": id, "object": kind, "created": CREATED, "model": model, "service_tier": "default"}


def chat_events(answer: Answer, number: int, model: str, sent: int) -> Iterator[Event]:
    head = _chat_head(number, model, "chat.completion.chunk")

    def chunk(delta: Json, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return None, {**head, "choices": [choice], "usage": None, "obfuscation": "k3Zq"}

    first = chat_message(answer)
    yield chunk({"role": "assistant", "content": None if first["content"] is None else "", "refusal": None})
    for name, text in (
        ("reasoning_content", answer.thoughts),
        ("content", answer.text),
        ("refusal", answer.refusal),
    ):
        for piece in answer.pieces(text):
            yield chunk({name: piece})
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        )
        for piece in answer.pieces(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, chat_reason(answer))
    yield None, {**head, "choices": [], "usage": chat_usage(answer, sent)}


def messages_content(answer: Answer) -> list[Json]:
    content: list[Json] = []
    if answer.thoughts or answer.opaque:
        content.append({"type": "thinking", "thinking": answer.thoughts, "signature": answer.opaque})
    if answer.redacted:
        content.append({"type": "redacted_thinking", "data": answer.redacted})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name}
        content.append({**block, "input": json.loads(call.arguments or "{}")})
    return content


def messages_usage(answer: Answer, sent: int) -> Json:
    return {
        "input_tokens": sent,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 7 if answer.thoughts else 0},
        "service_tier": "standard",
    }


def messages_end(answer: Answer) -> Json:
    reason = answer.reason or ("refusal" if answer.refusal else "tool_use" if answer.calls else "end_turn")
    details = {"type": "refusal", "category": None, "explanation": answer.refusal} if answer.refusal else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def messages_whole(answer: Answer, number: int, model: str, sent: int) -> Json:
    head = {"id": answer_id("msg_", number), "type": "message", "role": "assistant", "model": model}
    return {
        **head,
        "content": messages_content(answer),
        **messages_end(answer),
        "usage": messages_usage(answer, sent),
    }


def messages_events(answer: Answer, number: int, model: str, sent: int) -> Iterator[Event]:
    initial = messages_whole(Answer(cached=answer.cached), number, model, sent)
    initial = {**initial, "stop_reason": None, "usage": {**initial["usage"], "output_tokens": 1}}
    del initial["usage"]["output_tokens_details"]
    yield _named({"type": "message_start", "message": initial})
    # Arguments that are not JSON can be streamed, but not sent in one piece.
    quiet = Answer(answer.text, answer.thoughts, answer.opaque, answer.redacted)
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": {}} for call in answer.calls]
    arguments = {call.id: call.arguments for call in answer.calls}
    for index, block in enumerate(messages_content(quiet) + calls):
        empty = {name: "" if name in ("text", "thinking", "signature") else block[name] for name in block}
        yield _named({"type": "content_block_start", "index": index, "content_block": empty})
        if index == 0:
            yield _named({"type": "ping"})
        for delta in _block_deltas(answer, block, arguments):
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    usage = {
        "output_tokens": 20,
        "output_tokens_details": messages_usage(answer, sent)["output_tokens_details"],
    }
    yield _named({"type": "message_delta", "delta": messages_end(answer), "usage": usage})
    yield _named({"type": "message_stop"})


def _block_deltas(answer: Answer, block: Json, arguments: dict[str, str]) -> Iterator[Json]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in answer.pieces(block["text"]))
        case "thinking":
            for piece in answer.pieces(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in answer.pieces(arguments[block["id"]]):
                yield {"type": "input_json_delta", "partial_json": piece}


def _named(data: Json) -> Event:
    return data["type"], data


def openai_error(refusal: Refusal) -> Json:
    error = {"message": refusal.message, "type": refusal.type, "param": None, "code": refusal.code}
    return {"error": error}


def anthropic_error(refusal: Refusal) -> Json:
    error: Json = {"type": refusal.type, "message": refusal.message}
    if refusal.code:
        error["details"] = {"error_code": refusal.code}
    return {"type": "error", "error": error, "request_id": "req_000000000000000000000001"}
