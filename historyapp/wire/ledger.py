"""The cost of sessions and of steps. Money is in US dollars."""

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import MONEY, Page, ResponseModel, with_example
from historyapp.wire.caps import CapOut


class UsageOut(ResponseModel):
    """Billed tokens, in one convention for all providers: `uncached`, `cache_read` and `cache_write` add up
    to `input`."""

    input: int
    uncached: int
    cache_read: int
    cache_write: int
    output: int = Field(description="Includes reasoning.")
    reasoning: int


class ModelCalls(ResponseModel):
    model: str = Field(description="The model's name in the model calls, or empty.")
    calls: int


class ModelLedgerOut(UsageOut, ModelCalls):  # in JSON the fields of the last base come first
    estimated: int = Field(
        description="Input by Playhead's own count, of the model calls that have an estimate."
    )
    counted: int = Field(description="Input by providers' count endpoints, of the model calls that have it.")
    money: float | str = Field(description=MONEY)
    reported: float = Field(description="US dollars as the source reported them.")


class InputTokens(ResponseModel):
    """Input tokens as estimated, counted and billed."""

    estimated: int
    estimated_billed: int = Field(description="Billed input of the model calls that have an estimate.")
    counted: int
    billed: int


class LedgerOut(ResponseModel):
    """The cost of a session."""

    model_config = with_example({
        "steps": 1, "calls": 1,
        "tokens": {"estimated": 60, "estimated_billed": 61, "counted": 0, "billed": 61},
        "usage": examples.USAGE, "models": [examples.MODEL_LEDGER], "money": 0.000095, "reported": 0.0,
        "unknown_models": [], "prices_as_of": "2026-11-29", "caps": [examples.CAP],
    })  # fmt: skip

    steps: int
    calls: int = Field(description="Model calls whose usage or cost was reported.")
    tokens: InputTokens
    usage: UsageOut
    models: list[ModelLedgerOut] = Field(description="The most expensive first.")
    money: float = Field(description="US dollars, of the models whose prices are known.")
    reported: float = Field(description="US dollars as the sources reported them.")
    unknown_models: list[str] = Field(
        description="Models that `money` leaves out, because their prices are unknown."
    )
    prices_as_of: str
    caps: list[CapOut] = Field(
        description="The spending caps that now apply to model calls in the session with this key."
    )


class LedgerStep(ResponseModel):
    number: int
    first_position: int
    status: str
    model: str
    tokens: int = Field(description="Tokens of the step's entries, by Playhead's own count.")


class StepLedgerOut(UsageOut, LedgerStep):
    """The cost of a step."""

    estimated: int
    counted: int
    money: float | str | None = Field(description=f"{MONEY} Null: the step reports no usage.")


class StepLedgerPage(Page[StepLedgerOut]):
    model_config = with_example({"items": [examples.STEP_LEDGER], "next": None})
