"""Converts the response of a provider's SDK, or the events of a stream, to plain fields."""

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from historyapp.core.json import dump_json

_FINAL_METHODS = ("get_final_completion", "get_final_message", "get_final_response")
"""Methods of the SDKs' streaming helpers that return the complete response."""
_END_EVENTS = ("response.completed", "response.incomplete", "response.failed")
_SDK_FIELDS = ("parsed", "parsed_arguments", "parsed_output")
"""Fields that the SDKs add for their callers. Providers reject them in requests."""
_CUT_OFF = (
    "The stream ended before the response was complete, so nothing was recorded. "
    "Record the partial text with append(ModelOutput(text=…)) if the agent continues with it."
)


def complete_response(response: object) -> Mapping[str, Any]:
    """The fields of a complete response.

    Args:
        response: a response of the SDK; a stream, which the caller may have read already; the events of a
            stream in order; or an object with the same fields.

    Raises:
        ValueError: if the response is of another kind, or not complete.
    """
    if isinstance(response, (str, bytes)) or response is None:
        raise ValueError(f"A {type(response).__name__} is not a response of a provider's SDK.")
    if finish := next((name for name in _FINAL_METHODS if hasattr(response, name)), None):
        return _checked_complete(_read_final(getattr(response, finish)))
    if isinstance(response, Mapping) or hasattr(response, "model_dump"):
        return fields_of(response)
    if isinstance(response, Iterable):
        return from_events(response)
    advice = ""
    if isinstance(response, AsyncIterable):
        advice = " Await it: collect its events in a list, or use AsyncRecorder."
    elif hasattr(response, "__enter__") or hasattr(response, "__aenter__"):
        advice = " Enter it with `with`, and pass the stream that it returns."
    raise ValueError(f"A {type(response).__name__} is not a response of a provider's SDK.{advice}")


async def read_async_stream(response: object) -> object:
    """The complete response of an asynchronous stream, or its events. Returns other objects unchanged.

    Raises:
        ValueError: if the stream is not complete.
    """
    finish = next((name for name in _FINAL_METHODS if hasattr(response, name)), None)
    if finish and isinstance(response, AsyncIterable):
        try:
            return _checked_complete(fields_of(await getattr(response, finish)()))
        except (AssertionError, RuntimeError) as error:
            raise ValueError(_CUT_OFF) from error
    if isinstance(response, AsyncIterable):
        return [event async for event in response]
    return response


def from_events(events: Iterable[object]) -> Mapping[str, Any]:
    """The response that the events of a stream form.

    Raises:
        ValueError: if they are not events of a provider, or end too early.
    """
    # Imported here, because this module loads all importers, which doubles the time to import the client.
    from historyapp.core.importers.event_streams import streamed_message

    known_events = [event for event in map(_event, events) if event is not None]
    end_events = (event for event in reversed(known_events) if event.get("type") in _END_EVENTS)
    if end_event := next(end_events, None):
        return _checked_complete(end_event["response"])
    lines = "\n".join(f"data: {dump_json(event)}" for event in known_events)
    message = streamed_message(lines)
    if message is None:
        if any(str(event.get("type", "")).startswith("response.") for event in known_events):
            raise ValueError(_CUT_OFF)
        raise ValueError("These are not the events of a stream of OpenAI or Anthropic, or there are none.")
    return _checked_complete(message)


def fields_of(response: Any) -> Mapping[str, Any]:
    """The fields of an SDK object, without those that the SDK added."""
    if isinstance(response, Mapping):
        return response
    try:
        dump = response.model_dump
    except AttributeError:
        raise ValueError(f"A {type(response).__name__} is not a response of a provider's SDK.") from None
    fields: Mapping[str, Any] = _without_sdk_fields(dump(mode="json", exclude_none=True, warnings=False))
    return fields


def _read_final(finish: Any) -> Mapping[str, Any]:
    try:
        message = finish()
    except (AssertionError, RuntimeError) as error:  # the SDKs raise these if the stream is not complete
        raise ValueError(_CUT_OFF) from error
    if hasattr(message, "__await__"):
        message.close()
        raise ValueError("This stream must be awaited. Use AsyncRecorder, or pass what its method returns.")
    return fields_of(message)


def _checked_complete(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response of a stream.

    Raises:
        ValueError: if it has no finish reason, so that it is not complete.
    """
    choice = next(iter(response.get("choices") or ()), response)
    if choice.get("finish_reason") or response.get("stop_reason") or response.get("object") == "response":
        return response
    raise ValueError(_CUT_OFF)


def _event(event: object) -> Mapping[str, Any] | None:
    """An event as the provider sent it; None for an event that the SDK added."""
    if getattr(event, "type", None) == "chunk":
        event = getattr(event, "chunk", event)
    fields = fields_of(event)
    kind = fields.get("type")
    is_openai = not isinstance(kind, str) or "choices" in fields or kind.startswith("response.")
    return fields if is_openai or kind in _ANTHROPIC_EVENTS else None


_ANTHROPIC_EVENTS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
)


def _without_sdk_fields(value: Any) -> Any:
    """Removes the SDKs' fields, but not those within arguments, which the model wrote."""
    if isinstance(value, list):
        return [_without_sdk_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if name not in _SDK_FIELDS}
    return {
        name: item if name in ("input", "arguments") else _without_sdk_fields(item)
        for name, item in kept.items()
    }
