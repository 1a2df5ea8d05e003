"""The cost of a session."""

from historyapp.client.api_call import ApiCall, Id, Pages, at, get, pages
from historyapp.wire.ledger import LedgerOut, StepLedgerOut, StepLedgerPage


def ledger(session_id: Id, *, as_of: int | None = None) -> ApiCall[LedgerOut]:
    """Tokens and cost of all live model calls."""
    return get(at("sessions", session_id, "ledger"), LedgerOut, as_of=as_of)


def step_ledgers(
    session_id: Id, *, limit: int | None = None, as_of: int | None = None
) -> Pages[StepLedgerOut]:
    """The same step by step, oldest first."""
    return pages(at("sessions", session_id, "ledger", "steps"), StepLedgerPage, limit=limit, as_of=as_of)
