"""A model provider: builds its requests and reads its streamed responses."""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from historyapp.core.errors import Invalid
from historyapp.core.json import DUMP_ERRORS, dump_json
from historyapp.core.text import clean_value
from historyapp.core.usage import MAX_CALL_TOKENS
from historyapp.llm import streams
from historyapp.llm.deltas import FinishedDelta, ModelOutputDelta, SilentDelta, StartedDelta
from historyapp.llm.errors import ResponseBroken
from historyapp.llm.request import ModelRequest
from historyapp.llm.response_limits import MAX_MESSAGE, ContentCount, Event, TooMuch
from historyapp.llm.response_memory import CountMemory
from historyapp.llm.sdks import SdkSource
from historyapp.llm.transport import Connection, Deadline


class ResponseReader(Protocol):
    """Reads one streamed response.

    Both methods may raise ``ModelCallError``. Events that do not follow the provider's API may raise
    ``KeyError``, ``TypeError`` and similar errors.
    """

    kept: int
    """About the bytes that it keeps, with the texts of its deltas."""

    @property
    def is_complete(self) -> bool:
        """Whether the last event of the response was read. Further events are ignored."""
        ...

    def read(self, event: Event) -> Iterator[ModelOutputDelta]: ...

    def finish(self) -> FinishedDelta | None:
        """The last delta, or None if the response is not complete."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One API for calling models."""

    name: str
    title: str
    """The display name."""
    format: str
    """The name of the context format that it accepts."""
    sdk: SdkSource
    path: str
    context_fields: Collection[str]
    """Request fields that the context may set."""
    limit_field: str
    """The request field for ``max_output_tokens``."""
    reserved: Collection[str]
    """Request fields that options cannot set."""
    defaults: Mapping[str, Any]
    """Default request fields. Options may override those that are not reserved."""
    reader: Callable[[], ResponseReader]
    drop_unread: Callable[[Event], None] = lambda _: None
    """Removes parts that the reader does not use from an event. They do not count towards its limits."""
    priced_options: Collection[str] = ()
    """The options that cost only input and output tokens. While a spending cap applies, all others are
    refused, because providers add options."""
    priced_tiers: Collection[str] = ()
    """Values of ``service_tier`` that cost no more than a model call without the option."""
    count_path: str | None = None
    count_fields: Collection[str] = ()
    """Request fields that count as tokens."""

    def stream(
        self, request: ModelRequest, model: str, deadline: Deadline, count_memory: CountMemory
    ) -> Generator[ModelOutputDelta]:
        """Streams one attempt. Closing the generator closes the connection.

        Raises:
            Invalid: if the request is not valid for this provider, or the key is missing.
            ModelCallError: if the attempt fails.
        """
        body = self.body(request, model)
        connection = Connection(self.sdk(), self.title, deadline)
        reader = self.reader()
        sent = connection.events(self.path, body, self.drop_unread)
        events = streams.read_in_thread(sent, connection.abort)
        del body  # it may be long, and the response may take minutes
        content = ContentCount(request.max_output_tokens)
        try:
            for delta in self._read(events, reader, count_memory):
                content.add(delta)
                yield delta
            finished = reader.finish()
            if finished is not None:
                content.add(finished)
                if len(dump_json(finished.message)) > MAX_MESSAGE:
                    raise TooMuch(f"{MAX_MESSAGE:,} characters")
        except TooMuch as error:
            raise connection.too_much(error) from None
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            raise self._response_broken("sent an event that does not follow its API") from None
        finally:
            events.close()
        if finished is None:
            raise self._response_broken("ended the response before it was complete")
        yield finished

    def _read(
        self, events: Iterable[Event | None], reader: ResponseReader, count_memory: CountMemory
    ) -> Iterator[ModelOutputDelta]:
        """The deltas of the events up to the last one of the response. The reader of the deltas can also
        cancel the model call while events come that have none.
        """
        is_started, last = False, time.monotonic()
        for event in events:
            if reader.is_complete:
                return  # the server sent more, or has not closed the stream after a pause
            for delta in () if event is None else reader.read(event):
                is_started = is_started or isinstance(delta, StartedDelta)
                if not is_started:
                    raise self._response_broken("sent a part of a response before its start")
                yield delta
                last = time.monotonic()
            count_memory(reader.kept)
            if event is None or time.monotonic() - last >= streams.PAUSE:
                yield SilentDelta()
                last = time.monotonic()
        if reader.is_complete and not is_started:
            raise self._response_broken("ended a response that it had not started")

    def count(self, request: ModelRequest, model: str, deadline: Deadline) -> int:
        """The request's tokens, as counted by the provider.

        Raises:
            Invalid: if the provider cannot count such requests.
            ModelCallError: if counting fails.
        """
        if self.count_path is None:
            raise Invalid(f"{self.title} does not count the tokens of requests for `{self.name}:` models.")
        body = self.body(request, model)
        count_body = {name: value for name, value in body.items() if name in self.count_fields}
        response = Connection(self.sdk(), self.title, deadline).post(self.count_path, count_body)
        tokens = response.get("input_tokens")
        if type(tokens) is not int or not 0 <= tokens < MAX_CALL_TOKENS:
            raise self._response_broken("did not report the number of tokens")
        return tokens

    def address(self) -> str:
        """The server, as ``https://host``. The path is left out because it may be private."""
        return str(self.sdk().client.base_url.copy_with(raw_path=b"/")).rstrip("/")

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        """The body of the request.

        Raises:
            Invalid: if the context belongs to another format, or an option cannot be set.
        """
        if unknown := sorted(set(request.context) - set(self.context_fields)):
            allowed = _listed(self.context_fields)
            raise Invalid(f"{model} takes {allowed}; {_listed(unknown)} belong to another format.")
        reserved = {"model", "stream", self.limit_field, *self.context_fields, *self.reserved}
        if refused := sorted(reserved & set(request.options)):
            raise Invalid(f"{_listed(refused)} cannot be set through options.")
        limit = request.max_output_tokens
        if limit is not None and limit < 1:
            raise Invalid(f"`max_output_tokens` must be at least 1, not {limit}.")
        fields = {**self.defaults, "model": model, "stream": True, **request.options, **request.context}
        if limit is not None:
            fields[self.limit_field] = limit
        body: dict[str, Any] = clean_value(fields)  # options may contain anything
        try:
            dump_json(body)
        except DUMP_ERRORS:
            raise Invalid("The request is not representable in JSON, or is nested too deeply.") from None
        return body

    def _response_broken(self, fault: str) -> ResponseBroken:
        return ResponseBroken(f"{self.title} {fault}.", provider=self.title, retryable=True)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
