"""What makes a provider: how a request is written for it, and how its answer is read."""

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from historyapp.core.errors import Invalid
from historyapp.core.json import DUMP_ERRORS, dump_json
from historyapp.llm.clients import Sdk
from historyapp.llm.deltas import Finished, ModelOutputDelta, Silent
from historyapp.llm.errors import AnswerBroken
from historyapp.llm.listening import listened
from historyapp.llm.request import ModelRequest
from historyapp.llm.transport import Connection, Deadline, Event


class Answer(Protocol):
    """Reads one streamed answer.

    Both methods may raise ``ModelCallError``, and ``KeyError``, ``TypeError`` and their like for events
    that are not as the provider's API promises.
    """

    def take(self, event: Event) -> Iterator[ModelOutputDelta]:
        """What one event says."""
        ...

    def end(self) -> Finished | None:
        """The last delta; None when the answer is not complete."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One way to call a model."""

    name: str
    title: str
    """For people."""
    format: str
    """The name of the context format that it takes."""
    sdk: Callable[[], Sdk]
    path: str
    body: Callable[[ModelRequest, str], dict[str, Any]]
    answer: Callable[[], Answer]
    count_path: str | None = None
    count_fields: Collection[str] = ()
    """Fields of the request that decide how many tokens it has."""

    def stream(self, request: ModelRequest, model: str, deadline: Deadline) -> Generator[ModelOutputDelta]:
        """One attempt. Closing it closes the connection.

        Raises:
            Invalid: when the request cannot be written for this provider, or there is no key.
            ModelCallError: when it fails.
        """
        body = self._written(request, model)
        connection = Connection(self.sdk(), self.title, deadline)
        answer = self.answer()
        events = listened(connection.events(self.path, body), connection.hang_up)
        try:
            for event in events:
                yield from (Silent(),) if event is None else answer.take(event)
            last = answer.end()
            if last is not None:
                dump_json(last.message)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            raise self._broken("sent something that its API does not promise") from None
        finally:
            events.close()
        if last is None:
            raise self._broken("ended the answer before it was complete")
        yield last

    def count(self, request: ModelRequest, model: str, deadline: Deadline) -> int:
        """Tokens that the request would have, as the provider itself counts them.

        Raises:
            Invalid: when the provider cannot count such requests.
            ModelCallError: when it fails to.
        """
        if self.count_path is None:
            raise Invalid(f"{self.title} does not count the tokens of requests for `{self.name}:` models.")
        body = self._written(request, model)
        counted = {name: value for name, value in body.items() if name in self.count_fields}
        tokens = (
            Connection(self.sdk(), self.title, deadline).post(self.count_path, counted).get("input_tokens")
        )
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise self._broken("did not say how many tokens there are")
        return tokens

    def address(self) -> str:
        """The server that is called, as ``https://host``: a path may hold what is nobody's business."""
        return str(self.sdk().client.base_url.copy_with(raw_path=b"/")).rstrip("/")

    def _written(self, request: ModelRequest, model: str) -> dict[str, Any]:
        body = self.body(request, model)
        try:
            dump_json(body)
        except DUMP_ERRORS:
            raise Invalid(
                "The request holds a value that JSON cannot represent, or is nested too deep."
            ) from None
        return body

    def _broken(self, what: str) -> AnswerBroken:
        return AnswerBroken(f"{self.title} {what}.", provider=self.title, retryable=True)
