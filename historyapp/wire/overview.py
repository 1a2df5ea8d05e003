"""The overview of a session. Times are in seconds, money is in US dollars."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example
from historyapp.wire.ledger import UsageOut

Steps = list[int]
_STEPS = "The numbers of the first of these steps."


_ENDINGS = (
    "empty", "running", "no_result", "interrupted", "error", "failed_command", "answered", "unanswered",
    "submitted", "gave_up", "stopped",
)  # fmt: skip


class EndingOut(ResponseModel):
    kind: str = Field(json_schema_extra={"enum": list(_ENDINGS)})
    text: str
    steps: Steps


class TimeOut(ResponseModel):
    """How long the run took. All fields are null if the entries have no times."""

    started_at: datetime | None
    ended_at: datetime | None
    total: float | None = Field(
        description="From the first entry to the newest one that no rewind has cut off, in seconds. It "
        "does not include the time between the entries that a fork shares and its own. It is the sum of the "
        "parts, unless entries are not in the order of their times."
    )
    model: float | None = Field(description="Time before outputs, and before the agent's own summaries.")
    tools: float | None = Field(description="Time between tool calls and their results.")
    waiting: float | None = Field(description="Time before a person's inputs while no tool call was open.")
    unanswered: float | None = Field(
        description="Time between a step whose tool calls have no result and a person's next input."
    )
    rewound: float | None = Field(
        description="Time until the run was continued after a rewind; 0 while not all steps are counted."
    )
    outside: float | None = Field(
        description="Time before the first input from a person or the first step, and after the last entry "
        "that another part includes: for example that of records which only the agent's program reads; 0 "
        "while not all steps are counted."
    )


class TokenFigureOut(UsageOut):
    shown: int = Field(
        description="The displayed figure: `input` as reported; otherwise Playhead's count of the entries."
    )
    source: str = Field(json_schema_extra={"enum": ["reported", "estimated"]})


class MoneyFigureOut(ResponseModel):
    amount: float | None = Field(description="Null: unknown, because no price or no usage is known.")
    source: str = Field(
        json_schema_extra={"enum": ["reported", "priced", "reported and priced", "unknown", "none"]}
    )
    prices_as_of: str
    unknown_models: list[str] = Field(description="The models that the amount leaves out.")


class ExpiredCacheOut(ResponseModel):
    """Requests that were not read from the provider's cache, because it had expired. They are counted only if
    the usage states how long the cache lives."""

    count: int
    steps: Steps = Field(description=_STEPS)
    tokens: int = Field(description="Tokens that were written to the cache again.")
    seconds: int = Field(description="How long the newest of these caches lives; 0 without any.")
    money: float | None = Field(
        description="What writing these tokens again cost more than reading them; null without a known price."
    )


class CompactionOut(ResponseModel):
    step: int = Field(description="The first step after the compaction or loss.")
    before: int = Field(description="Tokens of the request before it; 0: unknown.")
    after: int = Field(description="Tokens of the request after it; 0: unknown.")


class ContextSizeOut(ResponseModel):
    """The size of the model's input before each step."""

    source: str = Field(json_schema_extra={"enum": ["reported", "estimated"]})
    model: str
    window: int | None = Field(description="The usual window of the model in tokens; null if unknown.")
    window_at_least: int = Field(
        description="The largest billed input of the run up to `as_of`; 0 without usage. Takes, forks, later "
        "steps and the sessions that it was forked from count only if they show that `window` is wrong."
    )
    steps_per_point: int
    points: list[tuple[int, int]] = Field(
        description="Pairs of step and tokens; each point is the largest request of `steps_per_point` steps."
    )
    compactions: list[CompactionOut]
    losses: list[CompactionOut] = Field(
        description="Requests that were at least 10 % and 5,000 tokens smaller than the one before, to the "
        "same model, without a compaction: for example, the agent cleared old results."
    )
    rewinds: Steps = Field(description="The steps after which a rewind cut off entries.")
    turns: Steps = Field(description="The first steps of turns, at most 200.")


class ToolOut(ResponseModel):
    name: str = Field(description="Empty: all other tools together.")
    kind: str
    calls: int
    errors: int = Field(description="Reported errors.")
    likely_failures: int = Field(description="Results reported as a success that look like a failure.")
    seconds: float | None
    tokens: int = Field(description="Tokens of results, by Playhead's own count.")
    steps: Steps = Field(description=_STEPS)
    error_steps: Steps
    likely_steps: Steps


class TouchedFileOut(ResponseModel):
    path: str
    reads: int = Field(
        description="By tool calls, and by commands that print the file: `cat`, `head`, `tail`, `nl`, "
        "`less`, `more` and `sed`."
    )
    edits: int
    added: int = Field(
        description="Added lines, from diffs in the transcript, otherwise from the arguments of edits. "
        "`removed` is counted in the same way."
    )
    removed: int
    commands: int = Field(
        description="Commands of a shell that write the file: redirections, `tee`, `sed -i`, `cp`, `mv` and "
        "`--out`."
    )
    diffs: int = Field(
        description="Outputs of commands that print a diff of the agent's changes to the file: `git diff` "
        "without revisions, or a submission. `diff_added` and `diff_removed` are the lines of the newest one."
    )
    diff_added: int
    diff_removed: int
    deleted_in: int | None = Field(
        description="The step that deleted or moved the file, by an edit, `rm` or `mv`; null if none did, or "
        "if it was read or written again later."
    )
    steps: Steps = Field(description=_STEPS)
    edit_steps: Steps = Field(
        description="Steps that edit or delete the file, write it by a command or print a diff of it."
    )
    read_again: Steps = Field(description="Steps that read the file again after a compaction.")


class CommandOut(ResponseModel):
    command: str = Field(
        description="Its first 200 characters, on one line, without variables before the program, such as "
        "`env A=1`."
    )
    runs: int
    errors: int
    likely_failures: int
    seconds: float | None
    steps: Steps = Field(description=_STEPS)


class SubagentOut(ResponseModel):
    """A sub-agent's figures include those of the sub-agents below it, except for `seconds`."""

    session: UUID
    started_by: UUID
    started_at_step: int | None = Field(
        description="The step of this session whose tool call started it; null if that is unknown, or if "
        "another sub-agent started it."
    )
    title: str
    level: int
    steps: int
    errors: int
    tokens: int
    money: float | None = Field(
        description="Null if a part of it is unknown, for want of a price or of usage."
    )
    seconds: float | None


class SlowStepOut(ResponseModel):
    step: int
    tool: str
    target: str
    seconds: float


class ExpensiveStepOut(UsageOut):
    step: int
    tool: str
    target: str
    money: float = Field(description="As the source reported it, otherwise by the price list.")


class RepeatOut(ResponseModel):
    rule: str = Field(
        json_schema_extra={"enum": ["same_call_same_result", "alternating_calls", "error_streak"]}
    )
    count: int
    tool: str
    target: str
    steps: Steps = Field(description=_STEPS)
    last_step: int


class FindingOut(ResponseModel):
    kind: str
    text: str
    seconds: float | None
    steps: Steps


class RunNamesOut(ResponseModel):
    """Names in actions that appeared nowhere before, or only in entries that the model no longer saw."""

    indexed: bool = Field(description="Whether the whole log is in the index of names.")
    unseen: int = Field(description="Files that a tool call needs to exist and that appeared nowhere before.")
    unseen_steps: Steps
    gone: int = Field(
        description="Files, URLs and hashes that appeared only in entries that had been compacted away."
    )
    gone_steps: Steps


class OverviewOut(ResponseModel):
    """What a run did, and its time, tokens and cost."""

    model_config = with_example(examples.OVERVIEW)

    steps: int
    counted_steps: int = Field(
        description="The steps that the figures cover. If fewer than `steps`, send the request again: "
        "more are counted."
    )
    ending: EndingOut
    time: TimeOut
    tokens: TokenFigureOut
    money: MoneyFigureOut
    expired_cache: ExpiredCacheOut
    worth_a_look: list[FindingOut] = Field(description="At most five findings, the most urgent first.")
    names: RunNamesOut
    context: ContextSizeOut
    tools: list[ToolOut] = Field(description="Those with the most tool calls first.")
    files: list[TouchedFileOut] = Field(description="Those with the most edits first.")
    further_changes: list[int] = Field(
        description="The first steps whose commands may change files that they do not name, for example "
        "`git stash`."
    )
    commands: list[CommandOut] = Field(description="Those with the most runs first.")
    missing_subagents: int = Field(
        description="Sub-agents that the run started and whose sessions Playhead does not have: no figure "
        "includes their cost and their files."
    )
    subagents: list[SubagentOut] = Field(
        description="In the order of a tree: each follows the session that started it."
    )
    slowest: list[SlowStepOut]
    dearest: list[ExpensiveStepOut]
    repeated: list[RepeatOut]
