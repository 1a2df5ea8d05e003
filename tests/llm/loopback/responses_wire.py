"""Responses in the format of OpenAI's Responses API.

Source: the types of the official SDK (openai 3) and OpenAI's guide to streaming responses.
"""

from collections.abc import Iterator
from typing import Any

from tests.llm.loopback.script import Answer, Call
from tests.llm.loopback.wire import CREATED, Event, Json, answer_id


def items(answer: Answer, number: int) -> list[Json]:
    """The output items of an answer, complete."""
    output: list[Json] = []
    if answer.thoughts or answer.opaque:
        summary = [{"type": "summary_text", "text": answer.thoughts}] if answer.thoughts else []
        item = {"id": answer_id("rs_", number), "type": "reasoning", "summary": summary}
        output.append({**item, "encrypted_content": answer.opaque})
    if answer.text or answer.refusal:
        parts = [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]
        if answer.refusal:
            parts = [{"type": "refusal", "refusal": answer.refusal}]
        message = {"id": answer_id("msg_", number), "type": "message", "role": "assistant"}
        output.append({**message, "status": "completed", "content": parts})
    return output + [_call(call, number + place) for place, call in enumerate(answer.calls)]


def _call(call: Call, number: int) -> Json:
    item = {"id": answer_id("fc_", number), "type": "function_call", "status": "completed"}
    return {**item, "call_id": call.id, "name": call.name, "arguments": call.arguments}


def usage(answer: Answer, sent: int) -> Json:
    return {
        "input_tokens": sent + answer.cached,
        "input_tokens_details": {"cached_tokens": answer.cached, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 7 if answer.thoughts else 0},
        "total_tokens": sent + answer.cached + 20,
    }


def whole(answer: Answer, number: int, model: str, sent: int) -> Json:
    details = {"reason": answer.reason} if answer.reason else None
    return {
        **_head(number, model),
        "status": "incomplete" if details else "completed",
        "incomplete_details": details,
        "output": items(answer, number),
        "usage": usage(answer, sent),
    }


def _head(number: int, model: str) -> Json:
    head: Json = {
        "id": answer_id("resp_", number),
        "object": "response",
        "created_at": CREATED,
        "model": model,
    }
    request = {"instructions": "You repeat the request.", "tools": [], "tool_choice": "auto", "store": False}
    return {**head, **request, "error": None, "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0}


def events(answer: Answer, number: int, model: str, sent: int) -> Iterator[Event]:
    """Numbered events: created, each item piece by piece, completed or incomplete."""
    final = whole(answer, number, model, sent)
    initial = {**final, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": initial},
        {"type": "response.in_progress", "response": initial},
    ]
    for index, item in enumerate(final["output"]):
        events += _item_events(answer, index, item)
    events.append({"type": f"response.{final['status']}", "response": final})
    for place, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": place}


def _item_events(answer: Answer, index: int, item: Json) -> list[Json]:
    place = {"item_id": item["id"], "output_index": index}
    inner = {"function_call": _call_events, "message": _message_events, "reasoning": _reasoning_events}
    empty = {**item, "status": "in_progress", **_EMPTY[item["type"]]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": empty},
        *inner[item["type"]](answer, place, item),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


_EMPTY: dict[str, Json] = {
    "function_call": {"arguments": ""},
    "message": {"content": []},
    "reasoning": {"summary": [], "encrypted_content": "gAAA-not-yet"},
}


def _call_events(answer: Answer, place: Json, item: Json) -> list[Json]:
    kind = "response.function_call_arguments"
    pieces: list[Any] = [
        {"type": f"{kind}.delta", **place, "delta": piece} for piece in answer.pieces(item["arguments"])
    ]
    return [*pieces, {"type": f"{kind}.done", **place, "arguments": item["arguments"], "name": item["name"]}]


def _message_events(answer: Answer, place: Json, item: Json) -> list[Json]:
    part = item["content"][0]
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if field == "refusal" else "response.output_text"
    place = {**place, "content_index": 0}
    return [
        {"type": "response.content_part.added", **place, "part": {**part, field: ""}},
        *(
            {"type": f"{kind}.delta", **place, "delta": piece, "logprobs": []}
            for piece in answer.pieces(part[field])
        ),
        {"type": f"{kind}.done", **place, field: part[field], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _reasoning_events(answer: Answer, place: Json, item: Json) -> list[Json]:
    events: list[Json] = []
    for number, part in enumerate(item["summary"]):
        at = {**place, "summary_index": number}
        kind = "response.reasoning_summary"
        events += [
            {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}},
            *({"type": f"{kind}_text.delta", **at, "delta": piece} for piece in answer.pieces(part["text"])),
            {"type": f"{kind}_text.done", **at, "text": part["text"]},
            {"type": f"{kind}_part.done", **at, "part": part},
        ]
    return events
