"""The first rows of a fork are searched for in one span after another."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import Project, Session, Summary, summaries
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ask, ok

pytestmark = pytest.mark.django_db


@pytest.fixture
def past() -> History:
    """A fork at step 3. It has three steps of its own, and each step has two summaries."""
    project = Project.objects.create(name="p")
    session = create_session(project)
    append(project, session.pk, [ask("go"), *(entry for _ in range(3) for entry in (act("one"), ok()))])
    child = fork(project, session.pk)
    append(project, child.pk, [entry for _ in range(3) for entry in (act("two"), ok())])
    for step in (1, 2, 3, 4, 5, 6) * 2:
        add_summary(project, child.pk, (1, step), SummaryText(f"up to {step}"))
    return History(Session.objects.get(pk=child.pk))


def covering(past: History, first: int) -> list[int]:
    found = Summary.objects.covering(past.session, past.lineage, (first, past.lineage.last))
    return [summary.last_step for summary in found]


@pytest.mark.parametrize("count", [1, 4, 5, 7, 400])
def test_only_the_next_summaries_of_a_fork_cover_a_step(
    past: History, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "MAX_COVERING", count)
    rows = {number: past.row(number) for number in (2, 5)}
    assert all(rows.values())
    for number, row in rows.items():
        ends = [step for step in range(number, 7) for _ in range(2)]
        assert row
        assert covering(past, row.first_position) == ends[:count]
    assert covering(past, past.lineage.last + 1) == []


def test_a_fork_reads_no_more_summaries_of_a_session_than_it_uses(past: History) -> None:
    """PostgreSQL read and sorted all later summaries of two sessions, in 50 ms for 100,000."""
    with CaptureQueriesContext(connection) as captured:
        covering(past, 1)
    (sql,) = [query["sql"] for query in captured if "historyapp_summary" in query["sql"]]
    assert sql.count(f"LIMIT {summaries.MAX_COVERING}) AS part") == len(past.lineage.newest) == 2
