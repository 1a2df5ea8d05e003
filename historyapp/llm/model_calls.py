"""Model calls, the same for every provider."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.errors import ModelCallError
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.response_memory import CountMemory
from historyapp.llm.retries import RetryPolicy, with_retries
from historyapp.llm.router import ProviderRouter, Route
from historyapp.llm.transport import Deadline
from historyapp.tracing import model_call_span


def call_model(
    request: ModelRequest,
    *,
    router: ProviderRouter | None = None,
    limits: TimeLimits | None = None,
    retries: RetryPolicy | None = None,
    count_memory: CountMemory = lambda _: None,
) -> Generator[ModelOutputDelta]:
    """Yields the deltas of the response as they arrive. The last is a ``FinishedDelta``.

    The request is sent when the first delta is read. Closing the generator closes the connection to the
    provider, which cancels the model call.

    Args:
        count_memory: counts the memory of the response, see :class:`ResponseMemory`.

    Raises:
        Invalid: if the request cannot be sent: unknown model, missing key, invalid options.
        ModelCallError: if the model call fails and cannot be retried, or the retries are used up.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits())
    attempts = with_retries(
        lambda: route.provider.stream(request, route.model, deadline, count_memory),
        retries or RetryPolicy(),
        deadline,
    )
    span = model_call_span(route.model, route.provider.name)
    with closing(attempts), span, _add_target_on_failure(request.model, route):
        yield from attempts


def count_tokens(
    request: ModelRequest, *, router: ProviderRouter | None = None, limits: TimeLimits | None = None
) -> int:
    """The tokens of the whole request, as counted by its provider.

    Raises:
        Invalid: if the provider cannot count the request, and as in :func:`call_model`.
        ModelCallError: if counting fails.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits(connect=5, read=15, total=15))
    with _add_target_on_failure(request.model, route):
        return route.provider.count(request, route.model, deadline)


@contextmanager
def _add_target_on_failure(model: str, route: Route) -> Iterator[None]:
    """Adds the model and the server to errors, because a project may use several."""
    try:
        yield
    except ModelCallError as error:
        error.add_target(model, route.provider.address())
        raise
