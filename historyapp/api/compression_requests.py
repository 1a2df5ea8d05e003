"""Requests for compression runs, estimates and comparisons."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from historyapp.api.context_requests import ModelName
from historyapp.api.fields import UUID_SCHEMA, AsOf, Line, QueryStep, RequestBody, StepNumber, id_of
from historyapp.api.parsing import parse_json
from historyapp.core.strategies import STRATEGIES
from historyapp.core.text import Text
from historyapp.services.compression.request import RunRequest
from historyapp.wire.base import with_example
from historyapp.wire.problems import Malformed, NotValid

_NAMES = ", ".join(f"`{name}`" for name in STRATEGIES)
STRATEGY = f"One of {_NAMES}. Default: the session's `compression_strategy`."
MODEL = "`provider:model`, a model's name, or `local`. Default: the session's `llm_name`."
STEPS = "Negative numbers count from the end. Without either bound: all steps except the newest ones."
RunId = Annotated[UUID, id_of("compression"), UUID_SCHEMA]
ComparisonId = Annotated[UUID, id_of("comparison"), UUID_SCHEMA]
StrategyName = Annotated[Line, Field(max_length=100)]
MAX_OPTIONS = 100
"""The maximum number of options of a strategy in a request. Errors of each would be collected."""


class StrategyChoice(RequestBody):
    """A strategy with its model and options."""

    strategy: StrategyName | None = Field(default=None, description=STRATEGY)
    model: ModelName | None = Field(default=None, description=MODEL)
    options: dict[Text, Any] = Field(
        default_factory=dict, max_length=MAX_OPTIONS, description="Options of the strategy."
    )


class CompressionIn(StrategyChoice):
    model_config = with_example({"strategy": "simple_extract", "from_step": 1, "to_step": -5})

    from_step: StepNumber | None = Field(default=None, description=STEPS)
    to_step: StepNumber | None = None
    again: bool = Field(
        default=False, description="Include steps that already have a summary of this strategy."
    )


class ComparisonIn(RequestBody):
    model_config = with_example(
        {"from_step": 1, "to_step": 4, "sides": [{"strategy": "simple_extract"}, {"strategy": "structured"}]}
    )

    from_step: StepNumber = Field(description="Negative numbers count from the end.")
    to_step: StepNumber
    sides: list[StrategyChoice] = Field(min_length=2, max_length=2)


class EstimateFilter(BaseModel):
    strategy: StrategyName | None = Field(default=None, description=STRATEGY)
    from_step: QueryStep | None = Field(default=None, description=STEPS)
    to_step: QueryStep | None = None
    model: ModelName | None = Field(default=None, description=MODEL)
    options: str | None = Field(default=None, description="Options of the strategy, as a JSON object.")
    again: Literal["true", "false"] = "false"
    as_of: AsOf = None

    def run_request(self) -> RunRequest:
        try:
            options = parse_json((self.options or "{}").encode(errors="surrogatepass"))
        except Malformed as error:
            raise NotValid(f"options is not valid JSON: {error.detail}") from error
        if not isinstance(options, dict):
            raise NotValid('options must be a JSON object, such as {"name": 1}.')
        again = self.again == "true"
        return RunRequest(self.strategy, self.from_step, self.to_step, self.model, options, again)
