"""The cost of a session."""

from historyapp.client.api_call import ApiCall, Id, Pages, get, pages, path_of
from historyapp.wire.ledger import LedgerOut, StepLedgerOut, StepLedgerPage


def ledger(session_id: Id, *, as_of: int | None = None) -> ApiCall[LedgerOut]:
    """Tokens and cost of all live model calls."""
    return get(path_of("sessions", session_id, "ledger"), LedgerOut, as_of=as_of)


def step_ledgers(
    session_id: Id, *, limit: int | None = None, as_of: int | None = None
) -> Pages[StepLedgerOut]:
    """Tokens and cost of each step, oldest first."""
    return pages(path_of("sessions", session_id, "ledger", "steps"), StepLedgerPage, limit=limit, as_of=as_of)
