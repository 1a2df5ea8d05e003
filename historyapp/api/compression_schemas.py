"""Shapes of compression runs, estimates and comparisons, going in and coming out."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from historyapp.api.context_schemas import ModelName
from historyapp.api.fields import UUID_SCHEMA, Line, QueryStep, RequestBody, StepNumber, id_of, iso
from historyapp.api.parsing import parse_json
from historyapp.api.reading import AsOf
from historyapp.api.schemas import Page, shown
from historyapp.core.strategies import STRATEGIES
from historyapp.core.text import Text
from historyapp.models import CompressionItem, CompressionRun
from historyapp.services.compression.start import MOST_ERRORS, RunEstimate, RunRequest
from historyapp.wire import examples
from historyapp.wire.problems import Malformed, NotValid

MICRO = 1_000_000
State = Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
MONEY = 'US dollars at the price list; `"unknown"` where the model\'s price is.'
_NAMES = ", ".join(f"`{name}`" for name in STRATEGIES)
STRATEGY = f"One of {_NAMES}. Without it the session's `compression_strategy`."
MODEL = "`provider:model`, a model's name, or `local`; without it the session's `llm_name`."
STEPS = "Negative numbers count from the end. Without both bounds: all but the newest, which stay in full."


RunId = Annotated[UUID, id_of("compression"), UUID_SCHEMA]
ComparisonId = Annotated[UUID, id_of("comparison"), UUID_SCHEMA]
StrategyName = Annotated[Line, Field(max_length=100)]


class Side(RequestBody):
    """A strategy with its terms."""

    strategy: StrategyName | None = Field(default=None, description=STRATEGY)
    model: ModelName | None = Field(default=None, description=MODEL)
    options: dict[Text, Any] = Field(default_factory=dict, description="Of the strategy.")


class CompressionIn(Side):
    model_config = shown({"strategy": "simple_extract", "from_step": 1, "to_step": -5})

    from_step: StepNumber | None = Field(default=None, description=STEPS)
    to_step: StepNumber | None = None
    again: bool = Field(default=False, description="Also the steps that have a summary of this strategy.")

    def wish(self) -> RunRequest:
        return RunRequest(
            self.strategy, self.from_step, self.to_step, self.model, self.options, again=self.again
        )


class ComparisonIn(RequestBody):
    model_config = shown(
        {
            "from_step": 1,
            "to_step": 4,
            "sides": [{"strategy": "simple_extract"}, {"strategy": "structured"}],
        }
    )

    from_step: StepNumber = Field(description="Negative numbers count from the end.")
    to_step: StepNumber
    sides: list[Side] = Field(min_length=2, max_length=2)

    def wishes(self) -> list[RunRequest]:
        return [
            RunRequest(side.strategy, self.from_step, self.to_step, side.model, side.options)
            for side in self.sides
        ]


class EstimateFilter(BaseModel):
    strategy: StrategyName | None = Field(default=None, description=STRATEGY)
    from_step: QueryStep | None = Field(default=None, description=STEPS)
    to_step: QueryStep | None = None
    model: ModelName | None = Field(default=None, description=MODEL)
    options: str | None = Field(default=None, description="Of the strategy: a JSON object.")
    again: Literal["true", "false"] = "false"
    as_of: AsOf = None

    def wish(self) -> RunRequest:
        again = self.again == "true"
        return RunRequest(
            self.strategy, self.from_step, self.to_step, self.model, _options(self.options), again
        )


def _options(text: str | None) -> dict[str, Any]:
    """Options that a query gives as JSON. Raises ``NotValid`` where they are no object."""
    try:
        options = {} if text is None else parse_json(text.encode(errors="surrogatepass"))
    except Malformed as error:
        raise NotValid(f"options is not valid JSON: {error.detail}") from error
    if not isinstance(options, dict):
        raise NotValid('options must be a JSON object, as in {"name": 1}.')
    return options


class RunItem(BaseModel):
    """A compression run with its figures, which grow while it is under way."""

    id: UUID
    strategy: str
    model: str = Field(description="`provider:model`, `local`, or empty where no model is asked.")
    options: dict[str, Any]
    again: bool
    trial: bool = Field(description="Whether it belongs to a comparison: its summaries stand for nothing.")
    comparison: UUID | None
    automatic: bool = Field(description="Whether the session's settings started it.")
    state: State
    note: str = Field(description="What happened and what can be done; empty where nothing is to be said.")
    head: int = Field(description="The session's head when it was asked for.")
    from_step: int
    to_step: int = Field(description="Less than `from_step`: there was nothing to do.")
    total: int = Field(description="Summaries that it is to make; 0 until it is planned.")
    done: int
    failed: int
    calls: int = Field(description="Of the model.")
    tokens_in: int = Field(description="Spent.")
    tokens_out: int
    money: float | str = Field(description=MONEY)
    prices_as_of: str | None = Field(description="The date of the price list; null where no model is asked.")
    tokens_before: int = Field(description="Of the steps that have been summarised.")
    tokens_after: int = Field(description="Of their summaries.")
    tokens_saved: int = Field(description="Negative where summaries are longer than their steps.")
    actor: str = Field(description="Who asked for it.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ItemError(BaseModel):
    from_step: int
    to_step: int
    error: str = Field(description="Why it failed, in one sentence.")


class RunOut(RunItem):
    model_config = shown({**examples.RUN, "errors": []})

    errors: list[ItemError] = Field(description=f"The first {MOST_ERRORS}.")


class StartedOut(RunItem):
    model_config = shown({**examples.RUN, "joined": False})

    joined: bool = Field(description="Whether it was under way already: one at a time works on a session.")


class RunPage(Page[RunItem]):
    model_config = shown({"items": [examples.RUN], "next": None})


_ESTIMATE = {
    "strategy": "simple_extract", "model": "", "note": "", "from_step": 1, "to_step": 8, "steps": 8,
    "summaries": 8, "calls": 0, "tokens_before": 2400, "tokens_in": 0, "tokens_out": 0, "money": 0.0,
    "prices_as_of": "2025-11-30",
}  # fmt: skip


class EstimateOut(BaseModel):
    """What a run would do at most: steps that have their summary already are not counted out."""

    model_config = shown(_ESTIMATE)

    strategy: str
    model: str
    note: str = Field(description="Why it is not the model that was to be expected.")
    from_step: int
    to_step: int
    steps: int
    summaries: int
    calls: int = Field(description="Of the model; long steps may need more.")
    tokens_before: int = Field(description="Of the steps.")
    tokens_in: int = Field(description="That would be spent.")
    tokens_out: int
    money: float | str = Field(description=MONEY)
    prices_as_of: str = Field(description="The date of the price list.")


class TrialOut(BaseModel):
    from_step: int
    to_step: int
    state: Literal["waiting", "claimed", "done", "failed"]
    text: str | None = Field(description="What the summary would say; null until it is done.")
    error: str
    tokens_before: int
    tokens_after: int


class SideOut(RunItem):
    items: list[TrialOut]


_TRIAL = {
    "from_step": 1, "to_step": 1, "state": "done", "text": "read_file parser.py: def parse(text): …",
    "error": "", "tokens_before": 310, "tokens_after": 14,
}  # fmt: skip


class ComparisonOut(BaseModel):
    """Two strategies on the same steps. Nothing of it stands for the steps."""

    model_config = shown(
        {
            "id": "0197c7da-77aa-7f00-9a00-1b2c3d4e5f60",
            "from_step": 1,
            "to_step": 8,
            "ended": True,
            "sides": [
                {
                    **examples.RUN,
                    "trial": True,
                    "comparison": "0197c7da-77aa-7f00-9a00-1b2c3d4e5f60",
                    "items": [_TRIAL],
                }
            ],
        }
    )

    id: UUID
    from_step: int
    to_step: int
    ended: bool = Field(description="Whether both sides have.")
    sides: list[SideOut]


def money(micro: int | None) -> float | str:
    """Millionths of a dollar as answers have them."""
    return "unknown" if micro is None else micro / MICRO


def run_json(run: CompressionRun) -> dict[str, Any]:
    """The row as :class:`RunItem`."""
    return {
        "id": str(run.pk),
        "strategy": run.strategy,
        "model": run.model,
        "options": run.options,
        "again": run.again,
        "trial": run.trial,
        "comparison": str(run.comparison) if run.comparison else None,
        "automatic": run.automatic,
        "state": run.state,
        "note": run.note,
        "head": run.head,
        "from_step": run.from_step,
        "to_step": run.to_step,
        "total": run.total,
        "done": run.done,
        "failed": run.failed,
        "calls": run.calls,
        "tokens_in": run.tokens_in,
        "tokens_out": run.tokens_out,
        "money": money(run.cost),
        "prices_as_of": run.prices_as_of or None,
        "tokens_before": run.tokens_before,
        "tokens_after": run.tokens_after,
        "tokens_saved": run.tokens_saved,
        "actor": run.actor,
        "created_at": iso(run.created_at),
        "started_at": iso(run.started_at),
        "finished_at": iso(run.finished_at),
    }


def error_json(item: CompressionItem) -> dict[str, Any]:
    """The row as :class:`ItemError`."""
    return {"from_step": item.first_step, "to_step": item.last_step, "error": item.error}


def estimate_json(estimate: RunEstimate) -> dict[str, Any]:
    """The estimate as :class:`EstimateOut`."""
    return {
        "strategy": estimate.strategy,
        "model": estimate.model,
        "note": estimate.note,
        "from_step": estimate.first_step,
        "to_step": estimate.last_step,
        "steps": estimate.steps,
        "summaries": estimate.summaries,
        "calls": estimate.calls,
        "tokens_before": estimate.tokens_before,
        "tokens_in": estimate.tokens_in,
        "tokens_out": estimate.tokens_out,
        "money": money(estimate.cost),
        "prices_as_of": estimate.prices_as_of,
    }


def comparison_json(runs: list[CompressionRun]) -> dict[str, Any]:
    """The runs as :class:`ComparisonOut`."""
    first = runs[0]
    return {
        "id": str(first.comparison),
        "from_step": first.from_step,
        "to_step": first.to_step,
        "ended": not any(run.active for run in runs),
        "sides": [{**run_json(run), "items": [_trial_json(item) for item in _items(run)]} for run in runs],
    }


def _items(run: CompressionRun) -> list[CompressionItem]:
    return list(run.items.order_by("number"))


def _trial_json(item: CompressionItem) -> dict[str, Any]:
    return {
        **error_json(item),
        "state": item.state,
        "text": item.text,
        "tokens_before": item.tokens_before,
        "tokens_after": item.tokens_after,
    }
