"""Threads look for work while others take and end work."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.utils import timezone

from historyapp.services.fair_scheduler import ActiveWork, FairScheduler

WORK = [ActiveWork(UUID(int=id), UUID(int=id), datetime(2026, 1, 1, tzinfo=UTC)) for id in (1, 2)]


class OneThread(FairScheduler):
    one_thread_for_project = True

    def active(self) -> list[ActiveWork]:
        return WORK


def test_work_may_end_while_another_thread_looks_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("historyapp.services.fair_scheduler.claim_now", timezone.now)
    scheduler = OneThread()
    mine, other = scheduler.take(), scheduler.take()
    assert (mine, other) == (WORK[0].id, WORK[1].id)

    class Leaving(UUID):
        def __eq__(self, id: object) -> bool:
            if other is not None and other in scheduler.projects:
                scheduler.end(other)
            return id == mine

        __hash__ = UUID.__hash__

    assert list(scheduler.candidates(Leaving(int=1))) == []
    assert list(scheduler.candidates()) == [other]
