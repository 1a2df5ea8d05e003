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
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
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


def test_a_cost_that_is_known_only_in_part_is_stored_as_such(project: Project) -> None:
    session = create_session(project)
    usage = {"input_tokens": 1_000, "output_tokens": 10}
    for model, is_minimum in (("my-model", False), ("claude-haiku-4-5", True)):
        append(project, session.pk, [draft(ModelOutput(text="done"), model=model, usage=usage)])
        session.refresh_from_db()
        assert session.cost_is_minimum is is_minimum, "a cost of which nothing is known is no minimum"
    Session.objects.update(cost_is_minimum=None, is_listed=False)
    assert fill_list_columns(lambda: False) == 1
    session.refresh_from_db()
    assert session.cost_is_minimum
    assert rebuild(session, check_only=True).differences == []
    rewind(project, session.pk, Target(to_step=0))
    session.refresh_from_db()
    assert session.cost_is_minimum is False


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
    """The stored duration, and that of the overview with what a fork shares, in milliseconds."""
    session.refresh_from_db()
    time = overview_of(History(session)).active_time
    assert rebuild(session, check_only=True).differences == []
    return session.duration, 0 if time is None else round(time / timedelta(milliseconds=1))


def test_the_duration_is_without_the_time_until_the_run_was_continued_after_a_rewind(
    project: Project,
) -> None:
    session = timed(project, 0, 60, 90)
    assert durations(session) == (90_000, 90_000), "the session was created years later"
    rewind(project, session.pk, Target(to_step=2))
    assert durations(session) == (60_000, 60_000)
    append(project, session.pk, [answered_at(100)])
    assert durations(session) == (60_000, 60_000)
    append(project, session.pk, [answered_at(107)])
    assert durations(session) == (67_000, 67_000)
    Session.objects.update(duration=0, is_listed=False)
    fill_list_columns(lambda: False)
    assert durations(session) == (67_000, 67_000)
    rewind(project, session.pk, Target(to_step=0))
    append(project, session.pk, [answered_at(200), answered_at(210)])
    assert durations(session) == (10_000, 10_000)


def test_the_duration_of_a_fork_begins_with_its_own_first_entry(project: Project) -> None:
    session = timed(project, 0, 60, 90)
    child = fork(project, session.pk, at_step=2)
    assert durations(child) == (0, 60_000)
    append(project, child.pk, [answered_at(100)])
    append(project, child.pk, [answered_at(103)])
    assert durations(child) == (3_000, 63_000)
    rewind(project, child.pk, Target(to_step=1))
    assert durations(child) == (0, 0), "only an entry of the parent is live"


def billed(project: Project, session: Session, *inputs: int) -> None:
    """Answers whose model calls have so many input tokens, at a dollar for each million."""
    for tokens in inputs:
        usage = {"input_tokens": tokens, "output_tokens": 0}
        drafts = [draft(ModelOutput(text="done"), model="claude-haiku-4-5", usage=usage)]
        append(project, session.pk, drafts)


def figures(session: Session) -> tuple[int, int]:
    """The tokens and the cost that lists show. A worker and a rebuild compute the same."""
    names = ("shown_tokens", "money", "tail")
    stored = Session.objects.filter(pk=session.pk).values_list(*names).get()
    Session.objects.filter(pk=session.pk).update(shown_tokens=7, money=7, is_listed=False)
    assert fill_list_columns(lambda: False) == 1
    assert Session.objects.filter(pk=session.pk).values_list(*names).get() == stored
    assert rebuild(session).differences == []
    assert Session.objects.filter(pk=session.pk).values_list(*names).get() == stored
    tokens, money, _ = stored
    return tokens, money


def test_tokens_and_cost_of_a_fork_are_those_since_the_fork(project: Project) -> None:
    session = create_session(project)
    billed(project, session, 1_000, 2_000, 4_000)
    assert figures(session) == (7_000, 7_000)
    child = fork(project, session.pk, at_step=2)
    assert figures(child) == (0, 0)
    billed(project, child, 8_000)
    assert figures(child) == (8_000, 8_000)
    grandchild = fork(project, child.pk, at_step=3)
    billed(project, grandchild, 16_000)
    assert figures(grandchild) == (16_000, 16_000)
    cut = rewind(project, child.pk, Target(to_step=1))
    billed(project, child, 32_000)
    assert figures(child) == (32_000, 32_000)
    undo_rewind(project, child.pk, cut.position)
    assert figures(child) == (8_000, 8_000)
    assert figures(session) == (7_000, 7_000)


def test_an_append_to_a_fork_of_an_earlier_version_counts_what_it_shares(project: Project) -> None:
    session = create_session(project)
    billed(project, session, 1_000)
    child = fork(project, session.pk)
    Session.objects.filter(pk=child.pk).update(tail=session_tail(session), shown_tokens=1_000, money=1_000)
    assert rebuild(child, check_only=True).differences == ["session differed in shown_tokens"]
    billed(project, child, 2_000)
    assert figures(child) == (2_000, 2_000)


def session_tail(session: Session) -> object:
    session.refresh_from_db()
    return {name: value for name, value in session.tail.items() if name != "clock"}


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
