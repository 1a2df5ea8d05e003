"""When nothing of a run is left to be begun: digests of what has grown too long, and how it ended."""

from functools import partial
from itertools import islice
from uuid import UUID

from django.utils import timezone

from historyapp.core.policies.summaries import visible_summaries
from historyapp.core.settings import load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.models import CompressionItem, CompressionRun, Session, Summary
from historyapp.models.history import History
from historyapp.services.compression.automatic import rearm
from historyapp.services.transactions import writing

HIGHEST_LEVEL = 10
"""Of digests of digests."""
MENDING = "Retry when that is mended, or choose another model or strategy."
MOST_READ = 1000
"""Summaries that are taken together for a digest, from the newest back."""


def finish(run_id: UUID) -> bool:
    """Ends a run that has nothing left to do.

    Returns whether there is something left to be begun after all: a digest, or what a dead worker left.
    """
    now = timezone.now()
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run_id)
        if not run.active:
            return False
        session = Session.objects.select_for_update().get(pk=run.session_id)  # always after the run
        if run.items.open().exists():
            return run.items.claimable(now).exists()
        if _may_grow_too_long(run) and _add_digest(session, run):
            return True
        run.state, said = _ending(run)
        run.finished_at = now
        run.note = " ".join(filter(None, (said, run.note)))
        run.save(update_fields=("state", "finished_at", "note"))
        rearm(session, run)
    return False


def break_off(run_id: UUID, reason: str) -> None:
    """Ends a run that cannot go on, unless others are at work on it. What is left of it waits for a retry.

    Args:
        reason: for people.
    """
    now = timezone.now()
    with writing():
        run = CompressionRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None or not run.active or run.items.under_way(now).exists():
            return
        session = Session.objects.select_for_update().get(pk=run.session_id)
        run.state = run.State.PARTLY_FAILED if run.done else run.State.FAILED
        run.finished_at, run.note = now, f"{reason} {MENDING}"
        run.save(update_fields=("state", "finished_at", "note"))
        rearm(session, run)


def _may_grow_too_long(run: CompressionRun) -> bool:
    tried = run.items.filter(level__gte=3, state=CompressionItem.State.FAILED).exists()
    return bool(run.done) and not run.trial and STRATEGIES[run.strategy].covers == "batch" and not tried


def add_note(run_id: UUID, note: str) -> None:
    """Adds a sentence to what people are told of the run, once."""
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run_id)
        if note not in run.note:
            run.note = " ".join(filter(None, (run.note, note)))
            run.save(update_fields=("note",))


def _ending(run: CompressionRun) -> tuple[str, str]:
    if not run.total:
        return run.State.SUCCEEDED, "There was nothing to do: every step has its summary already."
    if not run.failed:
        return run.State.SUCCEEDED, ""
    reasons = run.items.filter(state=CompressionItem.State.FAILED).values_list("error", flat=True)
    first = reasons.order_by("number").first() or ""
    if run.done:
        return run.State.PARTLY_FAILED, f"{run.failed} of {run.total} failed. Retry them. The first: {first}"
    return run.State.FAILED, f"Nothing could be summarised: {first} {MENDING}"


def _add_digest(session: Session, run: CompressionRun) -> bool:
    """Has the oldest summaries summarised, when all that stand side by side are too long together."""
    longest = load_settings(session.settings).max_summary_length
    ranges = _standing(session, run)
    length = sum(len(summary.text) for summary in ranges)
    if length <= longest or len(ranges) < 2:
        return False
    parts: list[Summary] = []
    for summary in ranges:  # until what stays leaves half of the room to the digest and to what comes
        if len(parts) >= 2 and length <= longest // 2:
            break
        parts.append(summary)
        length -= len(summary.text)
    level = max(3, max(part.level for part in parts) + 1)
    if level > HIGHEST_LEVEL:
        return False
    CompressionItem.objects.create(
        run=run,
        number=run.total + 1,
        level=level,
        first_step=parts[0].first_step,
        last_step=parts[-1].last_step,
        first_position=parts[0].first_position,
        last_position=parts[-1].last_position,
        parts=[str(part.pk) for part in parts],
        tokens_before=sum(part.tokens_after for part in parts),
    )
    run.total += 1
    run.save(update_fields=("total",))
    return True


def _standing(session: Session, run: CompressionRun) -> list[Summary]:
    """Live summaries of ranges that no higher one covers, oldest first.

    Those of later steps than the run's are left to a later run: a digest is stored where its run stood.
    """
    lineage, then = History(session).lineage, session.lineage(run.head)
    ranges = Summary.objects.filter(level__gte=2)
    newest_first = visible_summaries(partial(ranges.newest_first, lineage), min(lineage.last, run.head) + 1)
    alive = (each for each in newest_first if then.contains(str(each.session_id), each.last_position))
    return list(islice(alive, MOST_READ))[::-1]
