"""Prepares writes for the spool, and handles the responses when they are sent from it."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx

from historyapp.client.api_call import ApiCall
from historyapp.client.response_checks import check_success, error_for
from historyapp.client.retrying import Outcome, describe_outcome
from historyapp.client.spool import Spool, Write
from historyapp.core.errors import Conflict, Invalid, NotFound, PlayheadError
from historyapp.wire.problems import ServerUnavailable, TooLarge, TransactionTooLong

T = TypeVar("T")
log = logging.getLogger("historyapp.client")
TURN_PAUSE = 0.05
"""Seconds between two checks whether another process has finished sending."""
MAX_TOO_LONG = 10
"""The number of times that the server may need too long to store a write. An overloaded server stores it in
one of them. A write that is always too long would keep all later writes waiting."""
_FINAL = (Conflict, Invalid, NotFound, TooLarge)
"""Errors for which a retry of the same write cannot help."""


def with_times(api_call: ApiCall[T]) -> ApiCall[T]:
    """The API call with the current time in its entries, so that the log has the time of their creation.

    Called before the first attempt: all attempts with an ``Idempotency-Key`` must send the same body.
    """
    now, body = datetime.now(UTC).isoformat(), dict(api_call.body or {})
    if "entries" in body:
        body["entries"] = [{"created_at": now, **entry} for entry in body["entries"]]
    elif api_call.path.endswith("/steps"):
        body.setdefault("timestamp", now)
    else:
        body.setdefault("created_at", now)
    return replace(api_call, body=body)


def finish_write(spool: Spool, write: Write, outcome: Outcome) -> str:
    """Removes a write from the spool if the server has accepted or refused it.

    Returns:
        Why the write must be retried; empty if the next write can be sent.
    """
    if isinstance(outcome, httpx.RequestError):
        return describe_outcome(outcome)
    if not outcome.is_success:
        failure = error_for(outcome, write.server)
        if isinstance(failure, TransactionTooLong):
            is_final = spool.count_too_long(write) >= MAX_TOO_LONG
        else:
            is_final = isinstance(failure, _FINAL)
        if not is_final:
            return str(failure)
        _mark_refused(spool, write, failure.problem)
        return ""
    try:
        check_success(outcome, write.server, streamed=False)
        if "head" not in json.loads(outcome.content):
            return f"{write.server} responds with JSON that is not Playhead's"
    except (PlayheadError, ValueError, TypeError) as error:
        return str(error)
    spool.remove(write)
    return ""


def _mark_refused(spool: Spool, write: Write, problem: dict[str, Any]) -> None:
    log.error(
        "POST %s from the spool %s was refused: %s It is kept there; see Spool.refused().",
        write.path,
        spool.path,
        problem.get("detail"),
    )
    spool.mark_refused(write, problem)
    session, _, noun = write.path.rpartition("/")
    next_write = (
        spool.first(write.server, paths=(write.path, f"{session}/results")) if noun == "actions" else None
    )
    # Without its action the result would be recorded for another action.
    if next_write is not None and next_write.path != write.path:
        detail = "The server refused the action that this result belongs to."
        spool.mark_refused(next_write, {"status": problem.get("status"), "detail": detail})


def not_spoolable(spool: Spool, server: str, reason: str, api_call: ApiCall[Any]) -> ServerUnavailable:
    """The error for an API call that needs a response while writes wait in the spool."""
    count = spool.waiting(server)
    writes = "1 write waits" if count == 1 else f"{count:,} writes wait"
    return ServerUnavailable(
        f"{api_call.method} {api_call.path} needs the server's response, so it cannot be spooled. {writes} "
        f"in {spool.path} and must be sent first: {reason} "
        'An agent that reads from Playhead while it works should use on_outage="wait".'
    )
