"""The cost of a session, in total and by step."""

from typing import Any

from django.http.response import HttpResponseBase
from ninja import Query, Router

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.caps import cap_out
from historyapp.api.cursors import PageQuery, decode_cursor, encode_cursor
from historyapp.api.fields import AsOf, SessionId, money
from historyapp.api.responses import fill, fill_json, json_value, response_or_304
from historyapp.core.json import dump_json
from historyapp.core.usage import MICRO, Usage
from historyapp.models.history import History
from historyapp.services.caps import applicable_caps
from historyapp.services.ledger import StepAccount, ledger_of, step_accounts
from historyapp.wire.ledger import (
    InputTokens,
    LedgerOut,
    ModelLedgerOut,
    StepLedgerOut,
    StepLedgerPage,
    UsageOut,
)

router = Router(tags=["ledger"])

_STEPS = "ledger/steps"


@router.get("/sessions/{session_id}/ledger", response=LedgerOut, summary="Read a session's cost")
def read_ledger(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponseBase:
    """Tokens and money of all live model calls, and the spending caps.

    The response time does not depend on the session's length.
    """
    session = find_session(request, session_id)
    caps = [cap_out(cap) for cap in applicable_caps(session, request.auth)]

    def make_content() -> LedgerOut:
        history = History(session, as_of)
        ledger = ledger_of(history)
        totals = ledger.totals
        models = [
            fill(
                ModelLedgerOut,
                account.totals,
                **usage_fields(account.totals.usage),
                model=account.model,
                money=money(account.priced),
                reported=account.totals.cost / MICRO,
            )
            for account in ledger.models
        ]
        return LedgerOut(
            steps=history.steps,
            calls=totals.calls,
            tokens=fill(InputTokens, totals, billed=totals.input),
            usage=UsageOut(**usage_fields(totals.usage)),
            models=models,
            money=ledger.priced / MICRO,
            reported=totals.cost / MICRO,
            unknown_models=ledger.unknown,
            prices_as_of=ledger.prices.as_of,
            caps=caps,
        )

    return response_or_304(request, session, make_content, state=dump_json(json_value(caps)))


@router.get(
    "/sessions/{session_id}/ledger/steps", response=StepLedgerPage, summary="Read the cost of each step"
)
def list_step_accounts(
    request: ApiRequest, session_id: SessionId, filter: Query[PageQuery]
) -> HttpResponseBase:
    """The usage and cost of each step, oldest first."""
    session = find_session(request, session_id)

    def make_content() -> dict[str, Any]:
        as_of, first_step = filter.as_of, 1
        if filter.cursor is not None:
            as_of, first_step = decode_cursor(_STEPS, filter.cursor, int, int)
        history = History(session, as_of)
        last_step = first_step + filter.limit - 1
        accounts = step_accounts(history, first_step, last_step)
        position = session.head if as_of is None else as_of
        cursor = encode_cursor(_STEPS, position, last_step + 1) if last_step < history.steps else None
        return {"items": [_step_ledger_json(account) for account in accounts], "next": cursor}

    return response_or_304(request, session, make_content)


def _step_ledger_json(account: StepAccount) -> dict[str, Any]:
    usage = account.usage
    return fill_json(
        StepLedgerOut,
        account.row,
        **usage_fields(usage),
        model=account.model,
        estimated=account.estimated,
        counted=account.counted,
        money=money(account.priced) if usage.input or usage.output else None,
    )


def usage_fields(usage: Usage) -> dict[str, int]:
    """The fields of :class:`UsageOut`."""
    return {name: getattr(usage, name) for name in UsageOut.model_fields}
