"""The HTTP API, which ``historyapp.urls`` mounts under ``/api/v1``."""

from django.views.decorators.http import require_GET

from historyapp.api import (
    actions,
    bulk_actions,
    caps,
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
    origins,
    overview,
    projects,
    recorded,
    rewinds,
    run_comparisons,
    saved_searches,
    search,
    sessions,
    shares,
    snapshots,
    strategy_comparisons,
    summaries,
    transfers,
    webhooks,
    what_ifs,
)
from historyapp.api.application import PlayheadAPI
from historyapp.api.auth import BearerKey
from historyapp.api.idempotency import with_shared_checks
from historyapp.api.parsing import StrictParser

api = PlayheadAPI(
    title="Playhead",
    version="1",
    description="Record what agents do, read a session as it was at any position, rewind and fork.",
    auth=BearerKey(),
    parser=StrictParser(),
    urls_namespace="api",
    docs_decorator=require_GET,
)
api.add_decorator(with_shared_checks)
for resource in (
    sessions, entries, events, actions, episodes, find, search, saved_searches,
    recorded, contexts, snapshots, model_calls, ledger,
    origins, overview, summaries, notes, compressions, strategy_comparisons, rewinds, transfers, projects,
    caps, what_ifs, run_comparisons, shares, figures, webhooks, bulk_actions,
    evaluations,
):  # fmt: skip
    api.add_router("", resource.router)
