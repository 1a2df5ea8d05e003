"""The threads of a worker process that build the indexes of sessions and projects.

Like those for evaluations, see :mod:`historyapp.evaluators`. Requests are kept in memory: if they are lost,
the next reader requests the index again.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

from django.utils import timezone

from historyapp.models import Project, Session
from historyapp.models.projects import PURGED
from historyapp.services.fair_scheduler import ActiveWork, FairScheduler
from historyapp.services.names.index import catch_up as index_names
from historyapp.services.search.deleted_words import remove_deleted_words
from historyapp.services.search.index import catch_up as index_steps
from historyapp.services.text_index import index_text
from historyapp.work_threads import WorkThreads, stopping, work_in_slices

INDEXES_AT_ONCE = 2
SLICE_SECONDS = 5.0
"""Seconds after which an index yields to others."""
MAX_REQUESTS = 10_000
"""Further requests of a project are dropped, until some have ended. The next readers repeat them."""

IndexKind = Literal["text", "names", "search"]


class IndexRequest(NamedTuple):
    """An index that is to be completed. Messages can repeat it any number of times."""

    kind: IndexKind
    id: UUID
    """Of the session; for ``search``, of the project."""
    project: UUID
    requested_at: datetime

    @property
    def key(self) -> UUID:
        return uuid5(self.id, self.kind)


class IndexScheduler(FairScheduler):
    """Chooses the index that a thread works on next."""

    one_thread_for_project = True

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[UUID, IndexRequest] = {}
        self._counts = Counter[UUID]()
        """The number of requests of each project."""
        self._requests_lock = threading.Lock()

    def add(self, request: IndexRequest) -> None:
        """Adds a request, unless the same index waits or the project has too many requests."""
        key = request.key
        with self._requests_lock:
            if key not in self._requests and self._counts[request.project] < MAX_REQUESTS:
                self._requests[key] = request
                self._counts[request.project] += 1

    def begin(self, key: UUID) -> IndexRequest:
        """Removes a request when a thread begins to work on it. The index can then be requested again."""
        with self._requests_lock:
            request = self._requests.pop(key)
            self._counts[request.project] -= 1
            return request

    def active(self) -> list[ActiveWork]:
        with self._requests_lock:
            requests = list(self._requests.items())
        return [ActiveWork(key, request.project, request.requested_at) for key, request in requests]

    @property
    def is_busy(self) -> bool:
        """Whether an index waits or is being built."""
        return bool(self._requests or self.projects)


SCHEDULER = IndexScheduler()


def request_index(kind: IndexKind, id: UUID) -> None:
    """Lets a thread complete an index when the scheduler chooses it.

    Args:
        id: of the session; for ``search``, of the project. The words of deleted sessions are removed from the
            index of the project :data:`PURGED`.
    """
    projects = Project.objects.filter(pk=id).values_list("pk", flat=True)
    sessions = Session.objects.filter(pk=id).values_list("project_id", flat=True)
    project = (projects if kind == "search" else sessions).first()
    if project is not None:
        SCHEDULER.add(IndexRequest(kind, id, project, timezone.now()))
        INDEXERS.start()


def find_waiting_indexes() -> None:
    """Starts threads for requests that wait, for example because a thread has ended with an error."""
    for _ in islice(SCHEDULER.candidates(), INDEXES_AT_ONCE):
        INDEXERS.start()


def work_on_indexes() -> None:
    """Works on indexes until none waits. After a slice, an index waits behind the others of its project."""
    work_in_slices(SCHEDULER, work_for_one_slice)


def work_for_one_slice(key: UUID) -> bool:
    """Works on an index until it is complete or the slice ends. Returns whether more is left to do."""
    request = SCHEDULER.begin(key)
    end, has_more = time.monotonic() + SLICE_SECONDS, False

    def should_stop() -> bool:
        nonlocal has_more
        has_more = has_more or stopping.is_set() or time.monotonic() >= end
        return has_more

    BUILDERS[request.kind](request.id, should_stop)
    if has_more:
        SCHEDULER.add(request._replace(requested_at=timezone.now()))
    return has_more


def _complete_names(session: UUID, should_stop: Callable[[], bool]) -> None:
    row = Session.objects.filter(pk=session).first()
    if row is not None:
        lineage = row.lineage()
        while not index_names(lineage, limit=None) and not should_stop():
            pass


def _complete_search(project: UUID, should_stop: Callable[[], bool]) -> None:
    if project == PURGED:
        remove_deleted_words(should_stop)
    else:
        index_steps(project, should_stop)


BUILDERS: dict[IndexKind, Callable[[UUID, Callable[[], bool]], object]] = {
    "text": index_text,
    "names": _complete_names,
    "search": _complete_search,
}
INDEXERS = WorkThreads("indexes", INDEXES_AT_ONCE, work_on_indexes)
