"""What a session cost, in all and step by step."""

from typing import Any

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import BaseModel, Field

from historyapp.api.answers import reply_unless_known
from historyapp.api.auth import ApiRequest
from historyapp.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from historyapp.api.fields import SessionId
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import Page, shown
from historyapp.core.usage import ModelTotals, Usage
from historyapp.models import Session
from historyapp.models.history import History
from historyapp.services.ledger import ModelAccount, StepAccount, ledger_of, step_accounts

router = Router(tags=["ledger"])

_STEPS = "ledger/steps"
_MICRO = 1_000_000
_MONEY = 'US dollars at the price list; `"unknown"` where the model\'s price is.'


class UsageOut(BaseModel):
    """Tokens as billed, in one convention whoever reported them: the three inputs add up to `input`."""

    input: int
    uncached: int
    cache_read: int
    cache_write: int
    output: int = Field(description="Reasoning included.")
    reasoning: int


class ModelLedgerOut(UsageOut):
    model: str = Field(description="As the calls name it; empty where they do not.")
    calls: int
    estimated: int = Field(description="Input by our own count, of the calls that told it.")
    counted: int = Field(description="Input by providers' count endpoints, of the calls that told it.")
    money: float | str = Field(description=_MONEY)
    reported: float = Field(description="US dollars as the source reported them.")


class InputOut(BaseModel):
    """Input tokens as estimated, counted and billed."""

    estimated: int
    estimated_billed: int = Field(description="What the calls with an estimate were billed.")
    counted: int
    billed: int


_USAGE = {"input": 61, "uncached": 61, "cache_read": 0, "cache_write": 0, "output": 40, "reasoning": 0}
_MODEL = {
    "model": "gpt-5-mini", "calls": 1, **_USAGE, "estimated": 60, "counted": 0,
    "money": 0.000095, "reported": 0.0,
}  # fmt: skip


class LedgerOut(BaseModel):
    model_config = shown(
        {
            "steps": 1,
            "calls": 1,
            "tokens": {"estimated": 60, "estimated_billed": 61, "counted": 0, "billed": 61},
            "usage": _USAGE,
            "models": [_MODEL],
            "money": 0.000095,
            "reported": 0.0,
            "unknown_models": [],
            "prices_as_of": "2025-11-30",
        }
    )

    steps: int
    calls: int = Field(description="Model calls whose usage or cost was reported.")
    tokens: InputOut
    usage: UsageOut
    models: list[ModelLedgerOut] = Field(description="The dearest first.")
    money: float = Field(description="US dollars, of the models whose prices are known.")
    reported: float = Field(description="US dollars as the sources reported them.")
    unknown_models: list[str] = Field(
        description="Models that `money` leaves out: their prices are not known."
    )
    prices_as_of: str


class StepLedgerOut(UsageOut):
    number: int
    first_position: int
    status: str
    model: str
    tokens: int = Field(description="Of the step's entries, by our own count.")
    estimated: int
    counted: int
    money: float | str | None = Field(description=_MONEY + " Null: the step reports no usage.")


class StepLedgerPage(Page[StepLedgerOut]):
    model_config = shown(
        {
            "items": [
                {
                    "number": 1, "first_position": 2, "status": "success", "model": "gpt-5-mini",
                    "tokens": 31, **_USAGE, "estimated": 60, "counted": 0, "money": 0.000095,
                }
            ],
            "next": None,
        }
    )  # fmt: skip


class StepLedgerFilter(BaseModel):
    limit: Limit = 50
    cursor: Cursor | None = None
    as_of: AsOf = None


@router.get("/sessions/{session_id}/ledger", response=LedgerOut, summary="What a session cost")
def read_ledger(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponse:
    """Tokens and money of all live model calls. It costs the same to ask in every session."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: ledger_json(History(session, as_of)))


@router.get("/sessions/{session_id}/ledger/steps", response=StepLedgerPage, summary="What each step cost")
def list_step_accounts(
    request: ApiRequest, session_id: SessionId, filter: Query[StepLedgerFilter]
) -> HttpResponse:
    """Oldest first, for a chart."""
    session = find_session(request, session_id)
    return reply_unless_known(request, session, lambda: _page(session, filter))


def _page(session: Session, filter: StepLedgerFilter) -> dict[str, Any]:
    as_of, first = filter.as_of, 1
    if filter.cursor is not None:
        as_of, first = decode_cursor(_STEPS, filter.cursor, int, int)
    history = History(session, as_of)
    last = first + filter.limit - 1
    accounts = step_accounts(history, first, last)
    position = session.head if as_of is None else as_of
    cursor = encode_cursor(_STEPS, position, last + 1) if last < history.steps else None
    return {"items": [step_json(account) for account in accounts], "next": cursor}


def ledger_json(history: History) -> dict[str, Any]:
    """The ledger as :class:`LedgerOut`."""
    ledger = ledger_of(history)
    totals = ledger.totals
    return {
        "steps": history.steps,
        "calls": totals.calls,
        "tokens": {
            "estimated": totals.estimated,
            "estimated_billed": totals.estimated_billed,
            "counted": totals.counted,
            "billed": totals.input,
        },
        "usage": usage_json(totals.usage),
        "models": [_model_json(account) for account in ledger.models],
        "money": ledger.priced / _MICRO,
        "reported": totals.cost / _MICRO,
        "unknown_models": ledger.unknown,
        "prices_as_of": ledger.prices.as_of,
    }


def usage_json(usage: Usage) -> dict[str, int]:
    """The usage as :class:`UsageOut`."""
    return {
        "input": usage.input,
        "uncached": usage.uncached,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "reasoning": usage.reasoning,
    }


def _model_json(account: ModelAccount) -> dict[str, Any]:
    totals: ModelTotals = account.totals
    return {
        "model": account.model,
        "calls": totals.calls,
        **usage_json(totals.usage),
        "estimated": totals.estimated,
        "counted": totals.counted,
        "money": "unknown" if account.priced is None else account.priced / _MICRO,
        "reported": totals.cost / _MICRO,
    }


def step_json(account: StepAccount) -> dict[str, Any]:
    """The account as :class:`StepLedgerOut`."""
    row, usage = account.row, account.usage
    money: float | str | None = "unknown" if account.priced is None else account.priced / _MICRO
    return {
        "number": row.number,
        "first_position": row.first_position,
        "status": row.status,
        "model": account.model,
        "tokens": row.tokens,
        **usage_json(usage),
        "estimated": account.estimated,
        "counted": account.counted,
        "money": money if usage.input or usage.output else None,
    }
