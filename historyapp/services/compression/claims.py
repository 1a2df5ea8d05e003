"""Claims on the items of runs. A worker claims an item before it makes the summary, and renews the claim.

Runs of a session and of its forks may have items of the same steps. Only one of these is claimed at a time,
so that no step is paid twice: the others wait until it is done or has failed, or until its claim ends.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from historyapp.models import CompressionItem, CompressionRun
from historyapp.models.database_clock import claim_end, claim_now
from historyapp.models.families import SharedEntries
from historyapp.models.run_sql import run_sql
from historyapp.models.vendor import on_sqlite
from historyapp.services.changes import record_run_change
from historyapp.services.compression.items import reset_failed, waits_for_reset
from historyapp.services.compression.request import ChosenModel
from historyapp.services.transactions import writing

MAX_CLAIMED_TOKENS = 200_000
"""The maximum number of tokens of one claim's steps, which are all in memory. A single item may have more.
See also :data:`historyapp.services.compression.items.MAX_BYTES`."""
MAX_SKIPPED = 1_000
"""The maximum number of items that a claim passes over because other runs make summaries of their steps."""
_LOCK_CLASS = 2
"""The first number of PostgreSQL's advisory locks for the claims of a project."""


class _ClaimedItem(NamedTuple):
    """An item that another run has claimed."""

    session: UUID
    level: int
    first_position: int
    last_position: int

    def overlaps(self, item: CompressionItem) -> bool:
        """Whether both are of steps, or both are digests, and they have steps in common."""
        is_alike = (self.level >= 3) == (item.level >= 3)
        return (
            is_alike
            and self.first_position <= item.last_position
            and item.first_position <= self.last_position
        )


def claim(run_id: UUID, owner: UUID, limit: int) -> list[CompressionItem]:
    """Claims the first ``limit`` items that no other worker has claimed; none if the run has ended.

    Leaves out items while another run makes summaries of their steps.
    """
    now = claim_now()
    until = now + timedelta(seconds=settings.PLAYHEAD_CLAIM_SECONDS)
    with writing():
        run = CompressionRun.objects.select_for_update().get(pk=run_id)
        if not run.active or not run.planned:
            return []
        if waits_for_reset(run):
            reset_failed(run)
            run.save(update_fields=("failed",))
            return []
        if run.state == run.State.QUEUED:
            run.state, run.started_at = run.State.RUNNING, run.started_at or timezone.now()
            run.save(update_fields=("state", "started_at"))
            record_run_change(run)
        others = _claimed_elsewhere(run, now)
        items: list[CompressionItem] = []
        tokens = 0
        for item in list(run.items.claimable(now)[: limit + (MAX_SKIPPED if others else 0)]):
            if len(items) == limit:
                break
            if any(other.overlaps(item) for other in others):
                continue
            tokens += item.tokens_before
            if tokens > MAX_CLAIMED_TOKENS and items:
                break
            items.append(item)
        CompressionItem.objects.filter(pk__in=[item.pk for item in items]).update(
            state=CompressionItem.State.CLAIMED, claim=owner, claimed_until=until
        )
    return items


def _claimed_elsewhere(run: CompressionRun, now: datetime) -> list[_ClaimedItem]:
    """The items of the same steps and strategy that other runs have claimed. Those of ended runs count: their
    running calls are finished, and their summaries kept.

    Called within the transaction that claims. On PostgreSQL, it lets no other claim of the project come
    between; on SQLite, transactions run one after another.
    """
    if not ChosenModel(run.model).calls_provider or run.again or run.trial:
        return []
    if not on_sqlite():
        run_sql("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_CLASS, str(run.project_id)])
    # With a condition on the runs, SQLite would read all runs of the project.
    claimed = CompressionItem.objects.in_progress(now).filter(claim__isnull=False).exclude(run=run)
    of_run = ("run__project", "run__strategy", "run__trial")
    rows = claimed.values_list(*of_run, "run__session", "level", "first_position", "last_position")
    same = (run.project_id, run.strategy, False)
    items = [_ClaimedItem(*row[3:]) for row in rows if row[:3] == same]
    if not items:
        return []
    family, session = SharedEntries(run.session_id), run.session_id
    return [
        item
        for item in items
        if family.owner(item.session, item.last_position) == family.owner(session, item.last_position)
    ]


def renew(owner: UUID) -> list[int]:
    """Extends the owner's claims. Returns the primary keys of the items that it still has."""
    with writing():
        claimed = CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED)
        claimed.update(claimed_until=claim_end())
        return list(claimed.values_list("pk", flat=True))


def release(owner: UUID, items: Collection[int] | None = None) -> None:
    """Releases the owner's claims on unfinished items. ``items``: release only these."""
    with writing():
        claimed = CompressionItem.objects.filter(claim=owner, state=CompressionItem.State.CLAIMED)
        if items is not None:
            claimed = claimed.filter(pk__in=items)
        claimed.update(state=CompressionItem.State.WAITING, claim=None, claimed_until=None)
