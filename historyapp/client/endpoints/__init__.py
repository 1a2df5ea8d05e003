"""The API calls, each described once. The clients' methods have these names and arguments."""

from historyapp.client.endpoints import (
    bulk_actions,
    compressions,
    contexts,
    entries,
    episodes,
    evaluations,
    events,
    figures,
    find,
    ledger,
    model_calls,
    notes,
    overview,
    projects,
    rewinds,
    run_comparisons,
    saved_searches,
    search,
    sessions,
    shares,
    summaries,
    transfers,
    webhooks,
    what_ifs,
)  # fmt: skip

__all__ = [
    "bulk_actions", "compressions", "contexts", "entries", "episodes", "evaluations", "events", "figures",
    "find", "ledger", "model_calls", "notes", "overview", "projects", "rewinds", "run_comparisons",
    "saved_searches", "search", "sessions", "shares", "summaries", "transfers", "webhooks", "what_ifs",
]  # fmt: skip
