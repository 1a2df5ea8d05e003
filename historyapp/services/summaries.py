"""Stores manual summaries, and increases the revisions of sessions."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import F

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.tokens import count_tokens
from historyapp.models import Project, Session, Summary
from historyapp.models.changes import ChangeKind
from historyapp.models.history import History
from historyapp.models.summaries import MAX_SAME_END
from historyapp.services.append import lock_session
from historyapp.services.changes import record_change
from historyapp.services.transactions import limit_lock_waits, writing

MAX_SUMMARY = 100_000
"""Characters of a summary that a client writes."""
MAX_KEY_POINT = 2_000
"""Characters of a key point that a client writes."""


@dataclass(frozen=True, slots=True)
class SummaryText:
    """A summary's text and origin."""

    text: str
    key_points: tuple[str, ...] = ()
    strategy: str = "manual"
    model: str = ""
    level: int | None = None
    """None: 1 for one step, 2 for a range."""


def add_summary(
    project: Project, session_id: UUID, steps: tuple[int, int], content: SummaryText, *, actor: str = ""
) -> Summary:
    """Adds a summary of steps ``steps[0]`` to ``steps[1]`` (negative numbers count from the end).

    Raises:
        NotFound: when the project has no such session.
        Invalid: when the steps are not in the live history.
        Conflict: when the last step is still in flight, because the summary would lack its result, and when
            too many summaries end with it.
    """
    tokens_after = count_tokens(content.text)
    with writing():
        session = lock_session(project, session_id)
        history = History(session)
        try:
            first, last = history.resolve(steps[0]), history.resolve(steps[1])
        except NotFound as error:
            raise Invalid(error.detail, **error.fields) from error
        if first > last:
            raise Invalid(f"from_step is {first}, which comes after to_step, {last}.")
        rows = (history.row(first), history.row(last))
        if history.is_open(last):
            raise Conflict(f"Step {last} is still in flight. Summarise it after its result.")
        owner = history.lineage.session_at(rows[1].last_position)
        same_end = Summary.objects.filter(session_id=UUID(owner), last_position=rows[1].last_position)
        if same_end.count() >= MAX_SAME_END:
            raise Conflict(
                f"{MAX_SAME_END:,} summaries end with step {last} already, which is the maximum. Summarise "
                "steps with another end."
            )
        summary = Summary(
            session_id=UUID(owner),
            made_in=session,
            made_at=session.head,
            first_position=rows[0].first_position,
            last_position=rows[1].last_position,
            first_step=first,
            last_step=last,
            level=content.level or (1 if first == last else 2),
            text=content.text,
            key_points=list(content.key_points),
            strategy=content.strategy,
            model=content.model,
            tokens_before=rows[1].total_tokens - rows[0].total_tokens + rows[0].tokens,
            tokens_after=tokens_after,
            actor=actor,
        )
        Summary.objects.add([summary])
        increase_revisions(session.pk, {summary.session_id})
        record_change(session, ChangeKind.SUMMARIES)
        return summary


def increase_revisions(session: UUID, others: Iterable[UUID] = ()) -> None:
    """Increases the revisions of sessions, so that cached responses become stale.

    Locks ``session`` first, then the sessions that it shares entries with, in the order of their ids. Every
    writer of summaries uses this order, so there are no deadlocks.
    """
    shared = sorted({*others} - {session})
    if shared:
        limit_lock_waits()
    for id in (session, *shared):
        Session.objects.filter(pk=id).update(revision=F("revision") + 1)
