"""Stores the results of items as summaries, and ends the run when no item is left."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from historyapp.core.batches import batches
from historyapp.core.json_memory import memory_of
from historyapp.core.policies.base import visible_summaries
from historyapp.core.settings import load_settings
from historyapp.core.strategies.base import NOT_REPEATED, PAID
from historyapp.core.text import preview
from historyapp.models import CompressionItem, CompressionRun, Session, Summary
from historyapp.models.changes import ChangeKind
from historyapp.models.database_clock import claim_now
from historyapp.models.history import History
from historyapp.services.changes import record_change, record_run_change
from historyapp.services.compression.items import (
    MAX_BYTES,
    fail_waiting,
    waits_for_reset,
)
from historyapp.services.compression.locks import lock_run
from historyapp.services.compression.start import set_thresholds_after
from historyapp.services.compression.summarise import ItemResult, add_note
from historyapp.services.statements import update_items
from historyapp.services.summaries import increase_revisions
from historyapp.services.totals import count_ended_run, count_model_calls
from historyapp.services.transactions import writing

MAX_LEVEL = 10
"""The highest level of digests. Further digests have this level too: if summaries have the same end and
level, contexts use the newest."""
RETRY_ADVICE = "Fix this, then retry, or choose another model or strategy."
MAX_ERROR = 1000
"""The characters of an item's error."""
MAX_STORED_BYTES = 1 << 22
"""Bytes in memory of the summaries that one transaction stores. A single one may be larger. Others cannot
write meanwhile: a summary of a million emoji takes about 0.4 s."""
MAX_SUMMARIES = 1000
"""A digest considers at most this many of the newest summaries."""


class _DigestPart(NamedTuple):
    """A summary that a digest may replace, without its text."""

    pk: UUID
    first_step: int
    last_step: int
    first_position: int
    last_position: int
    level: int
    tokens_after: int
    length: int
    """Characters of its text."""
    size: int
    """Bytes of its text in memory."""


class _Digested(NamedTuple):
    items: tuple[int, int]
    """The run's items, and those that were done, when the summaries were read."""
    summaries: list[_DigestPart]


class Stored(NamedTuple):
    head: int
    """The session's head, which shows whether an agent is appending."""
    error: str
    """The error with which all waiting items fail, because further model calls would fail for the same
    reason. The first ones have failed, and the caller fails the others. Otherwise empty."""


def store_in_parts(
    run_id: UUID,
    owner: UUID,
    results: Sequence[ItemResult],
    reach: Callable[[Callable[[], Stored]], Stored],
) -> Stored:
    """Stores results in several transactions if they are long. Other arguments as :func:`store_results`.

    Args:
        reach: repeats a transaction while the database cannot be reached.
    """
    stored = [reach(partial(store_results, run_id, owner, part)) for part in _parts(results)]
    return Stored(stored[-1].head, next((part.error for part in stored if part.error), ""))


def _parts(results: Sequence[ItemResult]) -> Iterator[list[ItemResult]]:
    """Results for one transaction each. Those that may end the run come last."""
    ordered = sorted(results, key=lambda result: result.draft is None)
    return batches(ordered, _memory_of_draft, MAX_STORED_BYTES)


def _memory_of_draft(result: ItemResult) -> int:
    draft = result.draft
    return memory_of(draft.text) + sum(map(memory_of, draft.key_points)) if draft is not None else 0


def store_results(run_id: UUID, owner: UUID, results: Sequence[ItemResult]) -> Stored:
    """Stores results in one short transaction. If another worker has an item, only its cost is stored."""
    by_item = {result.item: result for result in results}
    with writing():
        run = lock_run(run_id)
        items = run.items.filter(pk__in=by_item, claim=owner, state=CompressionItem.State.CLAIMED)
        claimed = ((item, by_item[item.pk]) for item in items.order_by("number"))
        done = [(item, result) for item, result in claimed if not result.interrupted]
        answered = run.tokens_out or any(result.draft or result.usage.tokens_in for result in results)
        ending = [result for result in results if result.fatal or (result.unreachable and not answered)]
        head = run.session.head
        for item, result in done:
            item.claim = item.claimed_until = None
            spent = result.usage.cost
            item.cost = None if spent is None else (item.cost or 0) + spent
            if result.draft is None:
                item.state, item.error = item.State.FAILED, error_of(result, ends_run=result in ending)
            else:
                item.state, item.error, item.tokens_after = item.State.DONE, "", result.tokens
                if run.trial:
                    item.text = result.draft.text
        changed = set() if run.trial else _create_summaries(run, done, head)
        update_items([item for item, _ in done])
        for note in dict.fromkeys(result.note for _, result in done if result.note):
            add_note(run, note)
        _add_figures(run, [item for item, _ in done], results)
        error = preview(ending[0].error, MAX_ERROR) if ending and run.active else ""
        if error:
            failed = fail_waiting(run, error)
            CompressionRun.objects.filter(pk=run.pk).update(failed=F("failed") + failed)
        if changed:
            increase_revisions(run.session_id, changed)
            record_change(run.session, ChangeKind.SUMMARIES)
        record_run_change(run)
        if calls := sum(result.usage.calls for result in results):
            count_model_calls("compression", run.model.partition(":")[0], calls)
        return Stored(head, error)


def error_of(result: ItemResult, *, ends_run: bool) -> str:
    """The error of a failed item. If its model calls were paid, automatic runs do not repeat them.

    Args:
        ends_run: whether other items fail for the same reason. Then only what was answered counts as paid.
    """
    error, is_paid = result.error, result.usage.tokens_in or (result.may_be_billed and not ends_run)
    if not is_paid or error.endswith(NOT_REPEATED):
        return preview(error, MAX_ERROR)
    return f"{preview(error, MAX_ERROR - len(PAID) - 1)} {PAID}"


def _create_summaries(
    run: CompressionRun, items: Sequence[tuple[CompressionItem, ItemResult]], made_at: int
) -> set[UUID]:
    """Stores summaries at the positions that the steps had when the run was requested. Returns their
    sessions.

    If a rewind has cut off the steps meanwhile, the summaries belong to the take.
    """
    lineage = run.session.lineage(run.head)
    summaries = []
    for item, result in items:
        if result.draft is None:
            continue
        item.summary = Summary(
            session_id=UUID(lineage.session_at(item.last_position)),
            made_in=run.session,
            made_at=made_at,
            first_position=item.first_position,
            last_position=item.last_position,
            first_step=item.first_step,
            last_step=item.last_step,
            level=item.level,
            text=result.draft.text,
            key_points=list(result.draft.key_points),
            strategy=run.strategy,
            model=run.model,
            tokens_before=item.tokens_before,
            tokens_after=item.tokens_after,
            cost=result.usage.cost,
            run=run,
            actor=run.actor,
        )
        summaries.append(item.summary)
    Summary.objects.add(summaries)
    return {summary.session_id for summary in summaries}


def _add_figures(
    run: CompressionRun, items: Sequence[CompressionItem], results: Sequence[ItemResult]
) -> None:
    done = [item for item in items if item.state == item.State.DONE]
    usages = [result.usage for result in results]
    costs = [usage.cost for usage in usages]
    CompressionRun.objects.filter(pk=run.pk).update(
        done=F("done") + len(done),
        failed=F("failed") + len(items) - len(done),
        calls=F("calls") + sum(usage.calls for usage in usages),
        tokens_in=F("tokens_in") + sum(usage.tokens_in + usage.tokens_lost for usage in usages),
        tokens_out=F("tokens_out") + sum(usage.tokens_out for usage in usages),
        cost=None if None in costs else F("cost") + sum(cost or 0 for cost in costs),
        tokens_before=F("tokens_before") + sum(item.tokens_before for item in done if item.level < 3),
        tokens_after=F("tokens_after") + sum(item.tokens_after for item in done if item.level < 3),
    )


def finish_run(run_id: UUID) -> bool:
    """Ends a run if no item is left.

    Returns whether there is an item to start: a digest, or an item of a dead worker.
    """
    now = timezone.now()
    digested = _summaries_to_digest(run_id)
    with writing():
        run = lock_run(run_id)
        session = run.session
        if not run.active:
            return False
        if run.items.open().exists():
            return run.items.claimable(claim_now()).exists()
        if waits_for_reset(run):
            return True
        if _may_need_digest(run) and (digested is None or digested.items != (run.total, run.done)):
            return True  # another worker has just stored the last item: the summaries are read again
        if digested is not None and _add_digest(session, run, digested.summaries):
            return True
        errors = run.items.filter(state=CompressionItem.State.FAILED).values_list("error", flat=True)
        first_error, note = errors.order_by("number").first() or "", ""
        run.state = run.State.SUCCEEDED
        if not run.total:
            note = "There was nothing to do: every step already has a summary."
        elif run.failed and run.done:
            run.state = run.State.PARTLY_FAILED
            note = f"{run.failed} of {run.total} failed. Retry them. The first error: {first_error}"
        elif run.failed:
            run.state, note = run.State.FAILED, f"Nothing could be summarised: {first_error} {RETRY_ADVICE}"
        run.finished_at = now
        run.note = " ".join(filter(None, (note, run.note)))
        run.save(update_fields=("state", "finished_at", "note"))
        record_run_change(run)
        set_thresholds_after(session, run)
        count_ended_run(run)
    return False


def abort_run(run_id: UUID, reason: str) -> None:
    """Ends a run that cannot continue, unless other workers have claimed some of its items. Its other items
    wait for a retry.

    Args:
        reason: a sentence for the run's note.
    """
    now = timezone.now()
    with writing():
        try:
            run = lock_run(run_id)
        except CompressionRun.DoesNotExist:
            return
        session = run.session
        if not run.active or run.items.in_progress(claim_now()).exists():
            return
        run.state = run.State.PARTLY_FAILED if run.done else run.State.FAILED
        run.finished_at, run.note = now, f"{reason} {RETRY_ADVICE}"
        run.save(update_fields=("state", "finished_at", "note"))
        record_run_change(run)
        set_thresholds_after(session, run)
        count_ended_run(run)


def _may_need_digest(run: CompressionRun) -> bool:
    """Whether a run without open items must compare the length of the summaries with the limit. Not if a
    digest has failed, or was left out because another run has made one: that may end after this run's head,
    so that each comparison would add an item, and leave it out."""
    without_summary = run.items.filter(level__gte=3, summary=None)
    return bool(run.done) and not run.trial and not without_summary.exists()


def _summaries_to_digest(run_id: UUID) -> _Digested | None:
    """The summaries of a run without open items, read before the lock because they can be long; None if it
    needs no digest now."""
    run = CompressionRun.objects.select_related("session").filter(pk=run_id).first()
    if run is None or not run.active or run.items.open().exists() or not _may_need_digest(run):
        return None
    return _Digested((run.total, run.done), _visible_summaries(run.session, run))


def _add_digest(session: Session, run: CompressionRun, summaries: Sequence[_DigestPart]) -> bool:
    """Adds an item that digests the oldest summaries if all summaries together are too long.

    Returns whether it did.
    """
    max_length = load_settings(session.settings).max_summary_length
    length = sum(summary.length for summary in summaries)
    if length <= max_length or len(summaries) < 2:
        return False
    parts, size = list[_DigestPart](), 0
    # The digest takes up to half of the length. A quarter is left for later summaries, so that not every run
    # needs another digest.
    for summary in summaries:
        size += summary.size
        if len(parts) >= 2 and (length <= max_length // 4 or size > MAX_BYTES):
            break
        parts.append(summary)
        length -= summary.length
    level = min(MAX_LEVEL, max(3, max(part.level for part in parts) + 1))
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


def _visible_summaries(session: Session, run: CompressionRun) -> list[_DigestPart]:
    """The live summaries of steps and ranges that no digest covers, oldest first.

    Leaves out summaries of later steps, because a digest is stored as of its run's head.
    """
    lineage, run_lineage = History(session).lineage, session.lineage(run.head)
    read = partial(Summary.objects.newest_first, lineage)
    newest_first = visible_summaries(read, min(lineage.last, run.head) + 1)
    live = (
        summary
        for summary in newest_first
        if run_lineage.contains(str(summary.session_id), summary.last_position)
    )
    ids = [UUID(summary.id) for summary in islice(live, MAX_SUMMARIES)]
    return [_part(summary) for summary in Summary.objects.read(ids[::-1])]


def _part(summary: Summary) -> _DigestPart:
    return _DigestPart(
        summary.pk,
        summary.first_step,
        summary.last_step,
        summary.first_position,
        summary.last_position,
        summary.level,
        summary.tokens_after,
        len(summary.text),
        memory_of(summary.text),
    )
