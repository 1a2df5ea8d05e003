"""The largest request that a model is known to have accepted: a model's window is at least as large.

It may be in steps that are no longer or not yet part of a history: in its takes, after the moment at which it
is read, or in the sessions that it was forked from or that were forked from it. They had the same window.
"""

from uuid import UUID

from historyapp.core.prices import is_same_model
from historyapp.core.settings import known_window
from historyapp.core.usage import usage_of
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.models.sql import newest_outputs

MAX_RELATIVES = 4
"""The maximum number of other sessions: the nearest ones that it was forked from, and its newest forks."""
MAX_OUTPUTS = 300
"""The maximum number of outputs that are read of each session, newest first."""


def largest_request(history: History, model: str, largest: int) -> int:
    """Tokens of the largest billed input of the history; 0 without usage.

    Steps outside the history count only if they show that the model's usual window is wrong. Below it, they
    would only show what happened later.

    Reads nothing more if the history shows alone that the model's window is not known, or if the reader uses
    a share link, and so may not know of other steps.

    Args:
        largest: tokens of the largest billed input of the history's own steps.
    """
    window = known_window(model, largest)
    if history.visible.is_shared or window is None:
        return largest
    known = largest
    for session in _related(history):
        for metadata in newest_outputs(session, MAX_OUTPUTS):
            named = metadata.get("model")
            if is_same_model(named if isinstance(named, str) else "", model):
                known = max(known, usage_of(metadata).input)
    return known if known > window else largest


def _related(history: History) -> list[UUID]:
    """The sessions whose outputs may not all be in the history. Most histories have none."""
    session = history.session
    own = [] if history.as_of is None and session.tail_start == session.fork_position + 1 else [session.pk]
    parents = [UUID(owner) for owner in history.lineage.owners if owner != str(session.pk)]
    forks = Session.objects.filter(forked_from=session).order_by("-pk").values_list("pk", flat=True)
    others = [*reversed(parents[-MAX_RELATIVES:]), *forks[:MAX_RELATIVES]]
    return [*own, *others[:MAX_RELATIVES]]
