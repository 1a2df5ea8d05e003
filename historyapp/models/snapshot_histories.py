"""Histories with the summaries of a snapshot."""

from collections.abc import Collection

from historyapp.models.history import History
from historyapp.models.sessions import Session
from historyapp.models.summaries import SummaryRow


class TrackedHistory(History):
    """A history that records which summaries it returned."""

    def __init__(self, session: Session, as_of: int | None = None) -> None:
        super().__init__(session, as_of)
        self.summary_ids: dict[str, None] = {}

    def has_summary(self, summary: SummaryRow) -> bool:
        exists = super().has_summary(summary)
        if exists:
            self.summary_ids[summary.id.replace("-", "")] = None
        return exists


class SnapshotHistory(History):
    """A session as of a snapshot's position, with only the summaries of the snapshot."""

    def __init__(self, session: Session, position: int, summary_ids: Collection[str]) -> None:
        super().__init__(session, position)
        self._summary_ids = frozenset(summary_ids)

    def _exists(self, summary: SummaryRow) -> bool:
        # Not as of the position: the snapshot may have a summary that the fork's parent got after the fork.
        return summary.id.replace("-", "") in self._summary_ids
