"""Two runs compared. Times are in seconds, money is in US dollars."""

from pydantic import Field

from historyapp.core.text import Text
from historyapp.wire import examples
from historyapp.wire.base import Page, ResponseModel, with_example

CHANGES = ("same", "different", "only_a", "only_b")
DIFFERENCES = ("input", "call", "answer", "result", "status")


class RunPartOut(ResponseModel):
    """The totals of a run or of a part of it."""

    steps: int
    errors: int
    likely_failures: int
    tokens: int = Field(description="Input as reported; otherwise the entries by Playhead's own count.")
    token_source: str = Field(json_schema_extra={"enum": ["reported", "estimated"]})
    money: float | None = Field(
        description="Cost as reported, otherwise by the price list; null if neither is known."
    )
    money_is_minimum: bool = Field(
        default=False,
        description="Whether the true cost is higher than `money`: the price of a model is unknown, or the "
        "source reports too few output tokens.",
    )
    seconds: float | None = Field(
        description="`totals`: the `duration` of the run. `apart`: from the start of the first "
        "step to the end of the last step. Without the pause before a fork; null without times."
    )


class ComparedRunOut(ResponseModel):
    """One side of a comparison."""

    reference: str = Field(description="The reference as it was sent, with the id in lower case.")
    session: str
    as_of: int | None = Field(description="The run is compared as of this position; null: now.")
    title: Text
    agent: Text
    model: Text
    head: int
    totals: RunPartOut
    apart: RunPartOut = Field(description="The totals of the steps after the common part.")


class CommonPartOut(ResponseModel):
    """The entries that both runs share from the beginning on, as forks and takes do. Always exact."""

    position: int = Field(description="The position of the last shared entry; 0: no entry is shared.")
    steps: int = Field(description="The number of complete steps among the shared entries.")


class ComparedStepOut(ResponseModel):
    """A step with previews and figures."""

    number: int
    first_position: int
    last_position: int
    status: str
    tool_names: list[Text]
    call_preview: Text
    result_preview: Text
    tokens: int = Field(description="Tokens of its entries, by Playhead's own count.")
    money: float | None
    seconds: float | None = Field(description="Seconds from the tool call to its result; null without times.")


class PairDeltaOut(ResponseModel):
    """The figures of B's step minus those of A's step."""

    tokens: int
    money: float | None = Field(description="Null if the cost of one step is unknown.")
    seconds: float | None = Field(description="Null if one step has no times.")


class StepPairOut(ResponseModel):
    """Two steps side by side, or a step that only one run has."""

    model_config = with_example(examples.STEP_PAIR)

    a: ComparedStepOut | None
    b: ComparedStepOut | None
    change: str = Field(json_schema_extra={"enum": list(CHANGES)})
    differs: list[str] = Field(
        description="The differing parts: `input`, `call`, `answer`, `result`, `status`.",
        json_schema_extra={"items": {"type": "string", "enum": list(DIFFERENCES)}},
    )
    delta: PairDeltaOut | None = Field(
        default=None, description="B compared with A; null if only one run has the step."
    )
    exact: bool = Field(
        description="False if tool calls and results were compared only by their first 200 characters, "
        "because the steps of the page are too large to read. Inputs are always compared in this way."
    )


class StepPairPage(Page[StepPairOut]):
    model_config = with_example({"items": [examples.STEP_PAIR], "next": None})


class PairPlaceOut(ResponseModel):
    """The steps of A and B at a pair; null for a run that has ended."""

    a: int | None
    b: int | None


class PairCountsOut(ResponseModel):
    """The number of pairs of each kind after the common part, compared by their first 200 characters."""

    same: int
    different_call: int = Field(description="The tool call or the answer differs.")
    different_result: int = Field(
        description="The tool call is the same; the input, result or status differs."
    )
    only_a: int
    only_b: int
    complete: bool = Field(
        description="False in long runs: then only the first 2,000 steps of each run after the common "
        "part are counted."
    )


class RunComparisonOut(ResponseModel):
    """Two runs side by side."""

    model_config = with_example(examples.RUN_COMPARISON)

    a: ComparedRunOut
    b: ComparedRunOut
    common: CommonPartOut
    counts: PairCountsOut
    first_difference: PairPlaceOut | None = Field(
        description="The first pair that differs; null if no counted pair does."
    )
    first_divergence: PairPlaceOut | None = Field(
        description="The first pair whose tool calls or answers differ, or that only one run has."
    )
    pairs: StepPairPage = Field(description="The first pairs after the common part.")
