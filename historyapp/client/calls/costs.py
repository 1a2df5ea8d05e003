"""What a session cost."""

from historyapp.client.calls.making import Id, at, get, pages
from historyapp.client.description import Call, Pages
from historyapp.client.ledger_answers import Ledger, StepLedger


def ledger(session_id: Id, *, as_of: int | None = None) -> Call[Ledger]:
    """Tokens and money of all live model calls."""
    return get(at("sessions", session_id, "ledger"), Ledger, as_of=as_of)


def step_ledgers(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[StepLedger]:
    """The same step by step, oldest first."""
    return pages(at("sessions", session_id, "ledger", "steps"), StepLedger, limit=limit, as_of=as_of)
