"""The date in the head of a session is that of its newest live entry at the position of the page."""

from datetime import UTC, datetime, timedelta

from django.test import Client

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html

DAY = datetime(2026, 7, 20, 22, 37, tzinfo=UTC)


def test_a_rewind_makes_the_newest_live_entry_older_than_the_last_one(project: Project) -> None:
    def times(as_of: int | None = None) -> list[int]:
        history = History(Session.objects.get(), as_of)
        return [moment.day - DAY.day for moment in (history.last_entry_at, history.newest_live_at)]

    session = create_session(project)
    drafts = [EntryDraft(ModelOutput(text="ok"), DAY + timedelta(days=day)) for day in range(3)]
    append(project, session.pk, drafts)
    assert times() == times(3) == [2, 2]
    rewind(project, session.pk, Target(to_step=1))
    assert times() == times(4) == [2, 0]
    assert times(3) == [2, 2]
    assert times(1) == [0, 0]


def test_the_date_is_that_of_the_newest_live_entry(alice: Client, project: Project) -> None:
    def shown(session_id: object, query: str = "") -> str:
        page = html(alice.get(f"/sessions/{session_id}/overview{query}"))
        facts = page.partition('id="facts"')[2].partition("</div>")[0]
        return facts.rpartition('<time datetime="')[2][:10]

    session = create_session(project)
    drafts = [EntryDraft(ModelOutput(text="ok"), DAY + timedelta(days=day)) for day in range(3)]
    append(project, session.pk, drafts)
    assert shown(session.pk) == "2026-07-22"
    assert shown(session.pk, "?as_of=1") == "2026-07-20"
    assert shown(fork(project, session.pk, at_step=2).pk) == "2026-07-21"
    rewind(project, session.pk, Target(to_step=1))
    assert shown(session.pk) == "2026-07-20"
    append(project, session.pk, [EntryDraft(ModelOutput(text="ok"), DAY + timedelta(days=9))])
    assert shown(session.pk) == "2026-07-29"
