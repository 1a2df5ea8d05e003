"""The figures of a run, each with the steps that show it."""

from django.http import HttpResponse
from ninja import Router

from historyapp.api.auth import ApiRequest, find_session
from historyapp.api.fields import AsOf, SessionId
from historyapp.api.ledger import usage_fields
from historyapp.api.responses import fill, json_response
from historyapp.core.overview.figures import RunFigures
from historyapp.core.usage import MICRO
from historyapp.models.history import History
from historyapp.services.names.steps import run_names
from historyapp.services.overview import RunOverview, Subagent, overview_of
from historyapp.wire.overview import (
    CommandOut,
    CompactionOut,
    ContextSizeOut,
    EndingOut,
    ExpensiveStepOut,
    ExpiredCacheOut,
    FindingOut,
    MoneyFigureOut,
    OverviewOut,
    RepeatOut,
    RunNamesOut,
    SlowStepOut,
    SubagentOut,
    TimeOut,
    TokenFigureOut,
    ToolOut,
    TouchedFileOut,
)

router = Router(tags=["overview"])

MAX_STEPS = 100
"""The maximum number of steps in ``unseen_steps`` and in ``gone_steps``."""


@router.get("/sessions/{session_id}/overview", response=OverviewOut, summary="Read a run's overview")
def read_overview(request: ApiRequest, session_id: SessionId, as_of: AsOf = None) -> HttpResponse:
    """Figures of the live history, each with steps that show it.

    They are computed on the first read, in parts if the session is long: see `counted_steps`.
    """
    overview = overview_of(History(find_session(request, session_id), as_of))
    return json_response(_overview_out(overview))


def _overview_out(overview: RunOverview) -> OverviewOut:
    figures, tokens, money = overview.figures, overview.tokens, overview.money
    return OverviewOut(
        steps=overview.counted.steps,
        counted_steps=figures.steps,
        ending=EndingOut(
            kind=overview.ending.kind, text=overview.ending.text, steps=list(overview.ending.steps)
        ),
        time=_time_out(overview),
        tokens=TokenFigureOut(**usage_fields(tokens.usage), shown=tokens.shown, source=tokens.source),
        money=MoneyFigureOut(
            amount=money.micros / MICRO if money.is_known else None,
            source=money.source,
            prices_as_of=money.prices_as_of,
            unknown_models=list(money.unknown),
        ),
        expired_cache=_expired_cache_out(overview),
        worth_a_look=[
            FindingOut(
                kind=finding.kind,
                text=finding.text,
                seconds=finding.milliseconds / 1000 if finding.milliseconds else None,
                steps=list(finding.steps),
            )
            for finding in overview.findings
        ],
        names=_names_out(overview.history),
        context=_context_out(overview),
        tools=_tools_out(overview),
        files=_files_out(overview),
        further_changes=figures.further_changes,
        commands=[
            fill(CommandOut, totals, command=command, seconds=_seconds(figures, totals.milliseconds))
            for command, totals in overview.commands
        ],
        missing_subagents=overview.missing_subagents.number,
        subagents=[_subagent_out(child) for child in overview.subagents],
        slowest=[
            fill(SlowStepOut, step, seconds=step.score / 1000)
            for step in (figures.slowest if figures.is_dated else ())
        ],
        dearest=[
            ExpensiveStepOut(
                **usage_fields(step.figure.usage),
                step=step.figure.step,
                tool=step.figure.tool,
                target=step.figure.target,
                money=step.micros / MICRO,
            )
            for step in overview.most_expensive
        ],
        repeated=[fill(RepeatOut, repeat, last_step=repeat.last) for repeat in figures.repeated.findings()],
    )


def _tools_out(overview: RunOverview) -> list[ToolOut]:
    return [
        fill(
            ToolOut,
            tool,
            name=name,
            seconds=_seconds(overview.figures, tool.milliseconds),
            tokens=round(tool.tokens),
        )
        for name, tool in overview.tools
    ]


def _files_out(overview: RunOverview) -> list[TouchedFileOut]:
    return [
        fill(TouchedFileOut, file, path=path, deleted_in=file.deleted_in or None, read_again=file.again)
        for path, file in overview.files
    ]


def _expired_cache_out(overview: RunOverview) -> ExpiredCacheOut:
    misses, micros = overview.figures.cache_misses, overview.expired_micros
    return ExpiredCacheOut(
        count=misses.count,
        steps=misses.expired,
        tokens=misses.tokens,
        seconds=misses.lifetime,
        money=None if micros is None else micros / MICRO,
    )


def _names_out(history: History) -> RunNamesOut:
    names = run_names(history)
    return fill(
        RunNamesOut,
        names,
        indexed=names.is_indexed,
        unseen_steps=names.unseen_steps[:MAX_STEPS],
        gone_steps=names.gone_steps[:MAX_STEPS],
    )


def _time_out(overview: RunOverview) -> TimeOut:
    figures, span, total = overview.figures, overview.span, overview.total_time
    if span is None or total is None:
        return TimeOut.model_validate(dict.fromkeys(TimeOut.model_fields))
    return TimeOut(
        started_at=span.first,
        ended_at=span.newest,
        total=total.total_seconds(),
        model=figures.model_time / 1000,
        tools=figures.tool_time / 1000,
        waiting=figures.waiting_time / 1000,
        unanswered=figures.unanswered_time / 1000,
        rewound=overview.rewound_time / 1000,
        outside=overview.outside_time / 1000,
    )


def _seconds(figures: RunFigures, milliseconds: float) -> float | None:
    return round(milliseconds) / 1000 if figures.is_dated else None


def _context_out(overview: RunOverview) -> ContextSizeOut:
    sizes = overview.figures.sizes
    return ContextSizeOut(
        source="reported" if sizes.reported else "estimated",
        model=overview.model,
        window=overview.window,
        window_at_least=overview.largest,
        steps_per_point=sizes.stride,
        points=sizes.points,
        compactions=[fill(CompactionOut, compaction) for compaction in sizes.compactions],
        losses=[fill(CompactionOut, loss) for loss in sizes.losses],
        rewinds=overview.rewinds,
        turns=overview.figures.turns,
    )


def _subagent_out(child: Subagent) -> SubagentOut:
    session, milliseconds = child.session, child.milliseconds
    assert session.spawned_by_id is not None
    return fill(
        SubagentOut,
        child,
        session=session.pk,
        started_by=session.spawned_by_id,
        started_at_step=child.step,
        title=session.title,
        money=None if child.unpriced else child.micros / MICRO,
        seconds=None if milliseconds is None else milliseconds / 1000,
    )
