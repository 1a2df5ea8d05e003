"""Calling a model, whoever serves it."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.errors import ModelCallError
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.retrying import RetryPolicy, with_retries
from historyapp.llm.router import ProviderRouter, Route
from historyapp.llm.transport import Deadline


def call_model(
    request: ModelRequest,
    *,
    router: ProviderRouter | None = None,
    limits: TimeLimits | None = None,
    retries: RetryPolicy | None = None,
) -> Generator[ModelOutputDelta]:
    """The answer while it is given, ending with :class:`historyapp.llm.deltas.Finished`.

    Nothing is sent before the first delta is asked for. Closing the generator cancels the call: it closes the
    connection to the provider, which stops there.

    Raises:
        Invalid: for a request that no provider can be asked: unknown model, no key, wrong options.
        ModelCallError: when the call fails and may not, or need not, be made again.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits())
    attempts = with_retries(
        lambda: route.provider.stream(request, route.model, deadline), retries or RetryPolicy(), deadline
    )
    with closing(attempts), _placed(request.model, route):
        yield from attempts


def count_tokens(
    request: ModelRequest, *, router: ProviderRouter | None = None, limits: TimeLimits | None = None
) -> int:
    """Tokens of the whole request, counted by its provider.

    Raises:
        Invalid: when the provider has no way to count it, and as in :func:`call_model`.
        ModelCallError: when it fails to.
    """
    route = (router or ProviderRouter()).route(request.model)
    deadline = Deadline(limits or TimeLimits(connect=5, read=30, total=30))
    with _placed(request.model, route):
        return route.provider.count(request, route.model, deadline)


@contextmanager
def _placed(model: str, route: Route) -> Iterator[None]:
    """Failures say which model was asked where: who reads the log may have several."""
    try:
        yield
    except ModelCallError as error:
        error.place(model, route.provider.address())
        raise
