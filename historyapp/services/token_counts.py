"""Counts the tokens of a context at the model's provider.

The provider may take many seconds. Meanwhile the request lends its thread to others: threads for reads are
few. It keeps its context, as a model call does.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

from historyapp.core.json_memory import memory_of
from historyapp.core.slots import Slots
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.request import ModelRequest
from historyapp.models import Project
from historyapp.models.large_reads import end_large_read
from historyapp.services.call_memory import CALL_MEMORY
from historyapp.services.connections import release_connection
from historyapp.services.contexts import BuiltContext
from historyapp.services.project_slots import ProjectSlots
from historyapp.services.spending import check_model

AT_ONCE, OF_PROJECT, WAITING = 32, 8, 8
"""Counts at the same time in total and of one project, and how many more of a project may wait."""
WAIT_SECONDS = 10.0

COUNTS = ProjectSlots(
    Slots(AT_ONCE, of_owner=OF_PROJECT, waiting=WAITING),
    WAIT_SECONDS,
    "Too many counts of tokens of this {whose} wait for their provider. Wait until one has ended, then "
    "retry, or leave `count` out.",
)

lending_thread: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar(
    "lending_thread", default=nullcontext
)
"""The context in which this request lends its thread to others. Its end may wait for a thread."""


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
        with lending_thread.get()(), COUNTS.held(project.pk):
            return count_tokens(ModelRequest(built.spec.model, built.request))
