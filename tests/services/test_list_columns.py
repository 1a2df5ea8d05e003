"""The columns of lists are stored with the session, and equal values computed from its log."""

from datetime import timedelta

from historyapp.core.dates import UNDATED
from historyapp.core.strips import load_strip
from historyapp.models import Project, Session
from historyapp.models.strips import read_strip
from historyapp.services.append import append
from historyapp.services.list_columns import LIST_COLUMNS, fill_list_columns, has_unlisted_sessions
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, failed, ok


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


def test_the_duration_is_that_of_the_entries(project: Project) -> None:
    session = recorded(project, 1)
    began = session.last_entry_at - timedelta(seconds=90)
    Session.objects.update(created_at=began)
    append(project, session.pk, [act()])
    session.refresh_from_db()
    assert 90_000 <= session.duration == (session.last_entry_at - began) // timedelta(milliseconds=1)
    Session.objects.update(created_at=UNDATED)
    append(project, session.pk, [ok()])
    session.refresh_from_db()
    assert session.duration == 0
