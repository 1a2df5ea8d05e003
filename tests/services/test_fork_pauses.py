"""A fork may begin long after the entries that it shares. The time between them belongs to no run."""

from datetime import UTC, datetime, timedelta

import pytest

from historyapp.core.entries import EntryDraft
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.fork_pauses import fork_pauses
from historyapp.services.overview import overview_of
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.run_comparisons import RunReference, compare_runs
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, ok

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(project: Project, session: Session, days: int, *drafts: EntryDraft) -> Session:
    """Appends entries, one each second, some days after the start."""
    first = START + timedelta(days=days)
    timed = [draft._replace(created_at=first + timedelta(seconds=n)) for n, draft in enumerate(drafts)]
    append(project, session.pk, timed)
    session.refresh_from_db()
    return session


def forks_of_forks(project: Project) -> list[Session]:
    """A run of 8 s, a fork of it 10 days later, and a fork of this one 20 days later."""
    session = create_session(project)
    run = record(project, session, 0, ask("go"), ask("on"), *[act(), ok()] * 3, ask("why?"))
    first = record(project, fork(project, run.pk, at_step=2), 10, act(), ok(), act(), ok())
    second = record(project, fork(project, first.pk, at_step=3), 20, act(), ok())
    return [run, first, second]


@pytest.mark.parametrize(
    ("run", "other", "seconds", "after_common"), [(0, 1, 8, None), (1, 0, 8, 3), (2, 0, 7, 2)]
)
def test_runs_are_as_long_in_a_comparison_as_in_their_overviews(
    project: Project, run: int, other: int, seconds: int, after_common: int | None
) -> None:
    runs = forks_of_forks(project)
    a, b = RunReference(runs[run].pk), RunReference(runs[other].pk)
    comparison = compare_runs(a, b, lambda id: Session.objects.get(pk=id))
    assert comparison.a.whole.duration == timedelta(seconds=seconds)
    assert overview_of(History(runs[run])).total_time == timedelta(seconds=seconds)
    if after_common is not None:
        assert comparison.a.after_common.duration == timedelta(seconds=after_common)


def test_only_pauses_inside_the_part_count(project: Project) -> None:
    run, first, second = forks_of_forks(project)
    history = History(second)
    all_days = timedelta(days=20) - timedelta(seconds=5 + 1)
    assert fork_pauses(history) == all_days
    assert fork_pauses(history, after=first.fork_position + 1) == timedelta(days=10) - timedelta(seconds=1)
    assert fork_pauses(history, before=first.fork_position) == timedelta(0)
    assert fork_pauses(History(run)) == timedelta(0)


def test_a_fork_without_entries_of_its_own_has_no_pause(project: Project) -> None:
    run, *_ = forks_of_forks(project)
    other = fork(project, run.pk, at_step=2)
    assert fork_pauses(History(other)) == timedelta(0)
    rewind(project, other.pk, Target(to_step=1))
    other.refresh_from_db()
    record(project, other, 30, act(), ok())
    assert fork_pauses(History(other)) == timedelta(days=30) - timedelta(seconds=3)
