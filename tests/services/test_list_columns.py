"""The columns of lists are stored with the session, and equal values computed from its log."""

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.dates import UNDATED
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.strips import load_strip
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.strips import read_strip
from historyapp.services.append import append
from historyapp.services.list_columns import LIST_COLUMNS, fill_list_columns, has_unlisted_sessions
from historyapp.services.overview import overview_of
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, failed, ok

START = datetime(2026, 11, 1, tzinfo=UTC)


def recorded(project: Project, steps: int = 50) -> Session:
    """Each fifth step fails; the steps are recorded in batches of seven entries."""
    session = create_session(project)
    drafts = [draft for n in range(steps) for draft in (act(), failed() if n % 5 == 4 else ok())]
    for start in range(0, len(drafts), 7):
        append(project, session.pk, drafts[start : start + 7])
    session.refresh_from_db()
    return session


def test_the_strip_after_an_append_a_rewind_and_a_fork_equals_the_rows(project: Project) -> None:
    session = recorded(project)
    assert [mark.errors for mark in load_strip(session.strip)][:5] == [0, 0, 1, 1, 2]
    assert session.strip == read_strip(session.lineage(), 50)
    child = fork(project, session.pk, at_step=41)
    rewind(project, session.pk, Target(to_step=17))
    append(project, session.pk, [act(), ok(), act(), failed()])
    for one in (child, session):
        one.refresh_from_db()
        assert one.strip == read_strip(one.lineage(), one.steps) != ""
        assert rebuild(one).differences == []


def test_rows_of_an_earlier_version_are_computed_by_a_worker(project: Project) -> None:
    session = recorded(project)
    stored = Session.objects.filter(pk=session.pk).values(*LIST_COLUMNS).get()
    Session.objects.update(strip="", likely_failures=0, shown_tokens=0, duration=0, is_listed=False)
    assert has_unlisted_sessions()
    assert rebuild(session, check_only=True).differences == []
    assert fill_list_columns(lambda: False) == 1
    assert Session.objects.filter(pk=session.pk).values(*LIST_COLUMNS).get() == stored
    assert not has_unlisted_sessions()


def timed(project: Project, *seconds: int) -> Session:
    """An answer at each of these times."""
    session = create_session(project)
    for second in seconds:
        append(project, session.pk, [answered_at(second)])
    session.refresh_from_db()
    return session


def answered_at(second: int) -> EntryDraft:
    return draft(ModelOutput(text="done"), START + timedelta(seconds=second))


def durations(session: Session) -> tuple[int, int]:
    """The stored duration, and that of the overview, in milliseconds."""
    session.refresh_from_db()
    span = overview_of(History(session)).span
    assert rebuild(session, check_only=True).differences == []
    return session.duration, span.milliseconds if span else 0


def test_the_duration_is_that_from_the_first_entry_to_the_newest_live_one(project: Project) -> None:
    session = timed(project, 0, 60, 90)
    assert durations(session) == (90_000, 90_000), "the session was created years later"
    rewind(project, session.pk, Target(to_step=2))
    assert durations(session) == (60_000, 60_000)
    append(project, session.pk, [answered_at(100)])
    assert durations(session) == (100_000, 100_000)
    Session.objects.update(duration=0, is_listed=False)
    fill_list_columns(lambda: False)
    assert durations(session) == (100_000, 100_000)
    rewind(project, session.pk, Target(to_step=0))
    append(project, session.pk, [answered_at(200), answered_at(210)])
    assert durations(session) == (210_000, 210_000)


def test_a_fork_has_no_duration_in_lists(project: Project) -> None:
    session = timed(project, 0, 60, 90)
    child = fork(project, session.pk, at_step=2)
    assert durations(child) == (0, 60_000)
    append(project, child.pk, [answered_at(100)])
    assert durations(child) == (0, 100_000)


def test_undated_entries_have_no_duration(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [draft(ModelOutput(text="done"), UNDATED)])
    append(project, session.pk, [answered_at(5)])
    assert durations(session) == (0, 0)


def test_an_append_reads_no_more_rows_to_know_the_duration(project: Project) -> None:
    session = timed(project, 0)
    with CaptureQueriesContext(connection) as queries:
        append(project, session.pk, [answered_at(5)])
    reads = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert len(reads) == 1
