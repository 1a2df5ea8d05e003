"""Looking up a session's runs and comparisons."""

from uuid import UUID

from historyapp.core.errors import NotFound
from historyapp.models import CompressionItem, CompressionRun, Session
from historyapp.models.compressions import RunQuerySet

MOST_ERRORS = 100
"""Failed items that are told with a run."""


def runs_of(session: Session, as_of: int | None = None) -> RunQuerySet:
    """A session's runs; with ``as_of`` those that had been asked for by then.

    Raises:
        Invalid: when ``as_of`` lies beyond the head.
    """
    session.lineage(as_of)
    runs = CompressionRun.objects.filter(session=session)
    return runs if as_of is None else runs.filter(head__lte=as_of)


def find_run(session: Session, id: UUID, as_of: int | None = None) -> CompressionRun:
    """One of a session's runs.

    Raises:
        NotFound: when it has none of this id, or had none yet at the position.
        Invalid: when ``as_of`` lies beyond the head.
    """
    found = runs_of(session, as_of).filter(pk=id).first()
    if found is None:
        raise NotFound(f"There is no compression {id} in this session.")
    return found


def find_comparison(session: Session, id: UUID, as_of: int | None = None) -> list[CompressionRun]:
    """The runs of a comparison, in the order in which they were asked for.

    Raises:
        NotFound: when the session has no such comparison, or had none yet at the position.
        Invalid: when ``as_of`` lies beyond the head.
    """
    found = list(runs_of(session, as_of).filter(comparison=id).order_by("id"))
    if not found:
        raise NotFound(f"There is no comparison {id} in this session.")
    return found


def failed_items(run: CompressionRun) -> list[CompressionItem]:
    """The first items that have failed, by their numbers."""
    failed = run.items.filter(state=CompressionItem.State.FAILED).order_by("number")
    return list(failed[:MOST_ERRORS])
