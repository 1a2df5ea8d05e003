"""Model calls, the same for every provider."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.errors import ModelCallError
from historyapp.llm.request import ModelRequest, TimeLimits
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
) -> Generator[ModelOutputDelta]:
    """The deltas of the response as they come, up to :class:`historyapp.llm.deltas.FinishedDelta`.

    Nothing is sent before the first delta is read. Closing the generator cancels the call: it closes the
    connection to the provider.

    Raises:
        Invalid: for a request that cannot be sent: unknown model, no key, wrong options.
        ModelCallError: when the call fails and cannot be retried, or the retries are used up.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits())
    attempts = with_retries(
        lambda: route.provider.stream(request, route.model, deadline), retries or RetryPolicy(), deadline
    )
    span = model_call_span(route.model, route.provider.name)
    with closing(attempts), span, _add_target_on_failure(request.model, route):
        yield from attempts


def count_tokens(
    request: ModelRequest, *, router: ProviderRouter | None = None, limits: TimeLimits | None = None
) -> int:
    """Tokens of the whole request, counted by its provider.

    Raises:
        Invalid: when the provider cannot count it, and as in :func:`call_model`.
        ModelCallError: when the count fails.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits(connect=5, read=30, total=30))
    with _add_target_on_failure(request.model, route):
        return route.provider.count(request, route.model, deadline)


@contextmanager
def _add_target_on_failure(model: str, route: Route) -> Iterator[None]:
    """Errors name the model and the server: a project may use several."""
    try:
        yield
    except ModelCallError as error:
        error.add_target(model, route.provider.address())
        raise
