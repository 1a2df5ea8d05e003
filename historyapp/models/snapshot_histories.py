"""Histories with the summaries of a snapshot."""

from collections.abc import Collection, Sequence
from uuid import UUID

from historyapp.core.excerpts import Excerpt
from historyapp.models.history import History
from historyapp.models.sessions import Session
from historyapp.models.sql import OutlineRow
from historyapp.models.summaries import SummaryRow


class TrackedHistory(History):
    """A history that records which summaries it returned, and which excerpts are not stored."""

    def __init__(self, session: Session, as_of: int | None = None) -> None:
        super().__init__(session, as_of)
        self.summary_ids: dict[str, None] = {}
        self.new_excerpts: dict[tuple[UUID, int], Excerpt] = {}
        """The excerpts of ended steps whose rows have none, by the session and the anchor of the row."""

    def has_summary(self, summary: SummaryRow) -> bool:
        exists = super().has_summary(summary)
        if exists:
            self.summary_ids[summary.id.replace("-", "")] = None
        return exists

    def excerpts(self, rows: Sequence[OutlineRow]) -> list[Excerpt]:
        excerpts = super().excerpts(rows)
        for row, excerpt in zip(rows, excerpts, strict=True):
            if row.excerpt is None and row.status != "in_flight" and excerpt != Excerpt():
                self.new_excerpts[row.session_id, row.anchor] = excerpt
        return excerpts


class SnapshotHistory(History):
    """A session as of a snapshot's position, with only the summaries of the snapshot."""

    def __init__(self, session: Session, position: int, summary_ids: Collection[str]) -> None:
        super().__init__(session, position)
        self._summary_ids = frozenset(summary_ids)

    def _exists(self, summary: SummaryRow) -> bool:
        # Not as of the position: the snapshot may have a summary that the fork's parent got after the fork.
        return summary.id.replace("-", "") in self._summary_ids
