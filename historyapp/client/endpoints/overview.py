"""The overview of a run."""

from historyapp.client.api_call import ApiCall, Id, get, path_of
from historyapp.wire.overview import OverviewOut


def overview(session_id: Id, *, as_of: int | None = None) -> ApiCall[OverviewOut]:
    """Time, tokens, cost, tools, files and repeated work, each with the steps that show it."""
    return get(path_of("sessions", session_id, "overview"), OverviewOut, as_of=as_of)
