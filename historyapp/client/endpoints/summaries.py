"""Lists summaries of steps, and stores summaries that a client writes."""

from collections.abc import Sequence

from historyapp.client.api_call import ApiCall, Id, Pages, pages, path_of, post
from historyapp.wire.summaries import SummaryOut, SummaryPage


def summaries(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[SummaryOut]:
    """Summaries whose steps are live, in the order of the positions at which they end."""
    return pages(path_of("sessions", session_id, "summaries"), SummaryPage, limit=limit, as_of=as_of)


def write_summary(
    session_id: Id, from_step: int, to_step: int, text: str, *, key_points: Sequence[str] = ()
) -> ApiCall[SummaryOut]:
    """Stores your own summary. It takes precedence over older summaries of the same steps."""
    body = {"from_step": from_step, "to_step": to_step, "text": text, "key_points": list(key_points)}
    return post(path_of("sessions", session_id, "summaries"), SummaryOut, body)
