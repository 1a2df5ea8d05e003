"""The sub-agents that a run started and whose sessions Playhead does not have.

Their cost and the files that they changed are in no figure of the run.
"""

from typing import NamedTuple
from uuid import UUID

from historyapp.core.overview.figures import RunFigures
from historyapp.models import Session
from historyapp.models.history import History

MAX_READ = 1_000
"""The maximum number of sub-agents that are compared with the calls. A run with more misses none."""


class MissingSubagents(NamedTuple):
    """Successful calls that started a sub-agent without a session."""

    number: int
    steps: tuple[int, ...]
    """The first steps with such calls; empty if some sub-agents have sessions."""


NONE_MISSING = MissingSubagents(0, ())


def missing_subagents(history: History, figures: RunFigures) -> MissingSubagents:
    """The missing sub-agents of a history. A fork's are those of the shared steps too. At most one query, and
    none without such calls.

    A session whose call is not known may belong to any of the calls, so that fewer may be missing than are.
    """
    lineage, calls = history.lineage, figures.agent_calls
    if not calls or lineage.older:
        return NONE_MISSING
    owners = {history.session.pk, *(UUID(span.session) for span in lineage.newest)}
    children = Session.objects.filter(spawned_by__in=owners, project=history.session.project_id).order_by()
    places = list(children.values_list("spawned_by_id", "spawned_position")[:MAX_READ])
    present = sum(
        position is None or lineage.contains(str(starter), position) for starter, position in places
    )
    if len(places) == MAX_READ:
        return NONE_MISSING
    return MissingSubagents(max(0, calls - present), () if present else tuple(figures.agent_steps))
