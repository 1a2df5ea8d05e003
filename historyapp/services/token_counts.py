"""Counts the tokens of a context at the model's provider.

The provider may take many seconds. Meanwhile the request gives its thread to others: threads for reads are
few. It keeps its context, as a model call does.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from historyapp.core.json_memory import memory_of
from historyapp.core.slots import NoSlot, Slots
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.request import ModelRequest
from historyapp.models import Project
from historyapp.models.large_reads import end_large_read
from historyapp.services.call_memory import CALL_MEMORY
from historyapp.services.connections import release_connection
from historyapp.services.contexts import BuiltContext
from historyapp.services.spending import check_model
from historyapp.wire.problems import ServerUnavailable, TooManyRequests

AT_ONCE, OF_PROJECT, WAITING = 32, 8, 8
"""Counts at the same time in total and of one project, and how many more of a project may wait."""
WAIT_SECONDS, RETRY_SECONDS = 10.0, 2

COUNTS = Slots(AT_ONCE, of_owner=OF_PROJECT, waiting=WAITING)

thread_for_others: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar(
    "thread_for_others", default=nullcontext
)
"""The context in which this request gives its thread to others. Its end may wait for a thread."""


def count_by_provider(project: Project, built: BuiltContext) -> int:
    """The tokens of the request, counted by the model's provider.

    Raises:
        Invalid: when the provider is unknown, has no key, takes another format or cannot count.
        ModelNotAllowed: when the project does not allow the model.
        ModelCallError: when the provider fails.
        TooManyRequests, ServerUnavailable: when too many counts and calls wait for their providers.
    """
    check_model(project, built.spec.model)
    with CALL_MEMORY.held(project.pk, memory_of(built.request)):
        end_large_read()
        release_connection()
        with thread_for_others.get()(), _slot(project):
            return count_tokens(ModelRequest(built.spec.model, built.request))


@contextmanager
def _slot(project: Project) -> Iterator[None]:
    try:
        COUNTS.take(project.pk, WAIT_SECONDS)
    except NoSlot as error:
        refusal = TooManyRequests if error.is_own else ServerUnavailable
        raise refusal(
            f"Too many counts of tokens of this {'project' if error.is_own else 'server'} wait for their "
            "provider. Wait until one has ended, then retry, or leave `count` out.",
            retry_after=RETRY_SECONDS,
        ) from None
    try:
        yield
    finally:
        COUNTS.give_back(project.pk)
