"""The progress of an action on many sessions, and the outcome for each session."""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from historyapp.models import BulkAction, BulkItem, CompressionRun, Session

UNDER_WAY = "under_way"
"""The state of an item whose compression has started but not ended."""
_STATE_OF_RUN = {
    CompressionRun.State.SUCCEEDED: BulkItem.State.DONE,
    CompressionRun.State.QUEUED: UNDER_WAY,
    CompressionRun.State.RUNNING: UNDER_WAY,
    CompressionRun.State.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """The outcome for one session."""

    session: UUID
    title: str
    """Empty if the session has no title, or does not exist."""
    exists: bool
    state: str
    reason: str
    run: UUID | None


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """An action and the outcome for each of its sessions, at most 500."""

    action: BulkAction
    items: list[ItemProgress]
    counts: Counter[str]
    """Sessions by state."""

    @property
    def total(self) -> int:
        return len(self.items)

    @property
    def active(self) -> bool:
        """Whether an item is waiting or running."""
        return self.action.state == BulkAction.State.RUNNING or bool(self.counts[UNDER_WAY])

    @property
    def state(self) -> str:
        """``running``, ``finished`` or ``cancelled``. It is ``running`` while a started compression runs."""
        return BulkAction.State.RUNNING if self.active else self.action.state

    @property
    def ended(self) -> int:
        """The number of items that have ended."""
        return self.total - self.counts[BulkItem.State.WAITING] - self.counts[UNDER_WAY]

    @property
    def failed(self) -> list[ItemProgress]:
        return [item for item in self.items if item.state == BulkItem.State.FAILED]


def progress_of(action: BulkAction) -> BulkProgress:
    """The progress of an action. Takes three queries for any number of sessions."""
    items = list(action.items.order_by("number"))
    sessions = Session.objects.filter(
        project_id=action.project_id, pk__in=[item.session_id for item in items]
    )
    titles = dict(sessions.values_list("pk", "title"))
    started = [item.run_id for item in items if item.run_id is not None]
    runs = CompressionRun.objects.filter(pk__in=started, project_id=action.project_id) if started else ()
    runs_by_id = {run.pk: run for run in runs}
    item_progress = []
    for item in items:
        state, reason = str(item.state), item.reason
        run = runs_by_id.get(item.run_id) if item.run_id else None
        if run is not None and item.state == BulkItem.State.DONE:
            state = _STATE_OF_RUN.get(CompressionRun.State(run.state), BulkItem.State.FAILED)
            reason = run.note or (f"{run.failed} of {run.total} summaries failed." if run.failed else "")
        title, exists = titles.get(item.session_id, ""), item.session_id in titles
        item_progress.append(ItemProgress(item.session_id, title, exists, state, reason, item.run_id))
    return BulkProgress(action, item_progress, Counter(item.state for item in item_progress))
