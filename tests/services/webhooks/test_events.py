"""Each event is found once, from rows, however many entries were recorded at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import AuditRecord, Project, Session
from historyapp.models.changes import START, ChangeKind, changes_since
from historyapp.services.append import append
from historyapp.services.caps import set_caps
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import cancel_run, start_run
from historyapp.services.reservations import reserve
from historyapp.services.retention import purge
from historyapp.services.sessions import change_session, create_session
from historyapp.services.spending import Payer
from historyapp.services.webhooks import events
from historyapp.services.webhooks.events import WebhookEvent, find_events
from historyapp.wire.problems import CapReached
from tests.services.drafts import act, ask, failed, ok


def found_events(project: Project) -> list[WebhookEvent]:
    return find_events(project.pk, changes_since(project.pk, START, limit=1000).changes)


def names(project: Project) -> list[str]:
    return [event.event for event in found_events(project)]


def test_a_failed_step_is_an_event_with_what_failed(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act("make"), failed(reason="no rule"), act("ls"), ok()])
    (event,) = [event for event in found_events(project) if event.event == "session.error"]
    assert event.data["failed_steps"] == [{"number": 1, "tool": "make", "target": "", "error": "no rule"}]
    assert event.data["count"] == 1


def test_a_result_that_comes_later_counts_for_the_step_before_it(project: Project, session: Session) -> None:
    append(project, session.pk, [act("make")])
    first = found_events(project)
    append(project, session.pk, [failed()])
    assert [event.event for event in first] == ["session.started"]
    assert names(project) == ["session.started", "session.error"]


def test_a_session_ends_once_until_it_ends_again(project: Project, session: Session) -> None:
    for changes in ({"status": "finished"}, {"title": "named"}, {"status": "live"}, {"status": "finished"}):
        change_session(project, session.pk, changes)
    keys = {event.key for event in found_events(project) if event.event == "session.ended"}
    assert len(keys) == 2


def test_a_loop_is_one_event_while_it_continues(project: Project, session: Session) -> None:
    keys = set[str]()
    for _ in range(9):
        append(project, session.pk, [act("check", job=7), ok(outputs="still running")])
        keys |= {event.key for event in found_events(project) if event.event == "session.loop"}
    assert len(keys) == 1
    (event,) = {event.key: event for event in found_events(project) if event.event == "session.loop"}.values()
    assert event.data["loop"]["rule"] == "same_call_same_result"
    assert event.data["loop"]["tool"] == "check"


def test_a_cap_that_refuses_calls_is_one_event_a_period(project: Project, session: Session) -> None:
    set_caps(project, {"day": 1})
    for _ in range(3):
        with pytest.raises(CapReached):
            reserve(Payer(project.pk, session.pk, None), "gpt-5", 1000, 500)
    events = [event for event in found_events(project) if event.event == "budget.reached"]
    assert [event.data["cap"]["period"] for event in events] == ["day"]
    set_caps(project, {"day": 2})
    with pytest.raises(CapReached):
        reserve(Payer(project.pk, session.pk, None), "gpt-5", 1000, 500)
    later = [event for event in found_events(project) if event.event == "budget.reached"]
    assert events[0].key != later[0].key


def test_a_cap_of_a_session_is_one_event_of_the_session_that_it_refused(project: Project) -> None:
    capped = [create_session(project) for _ in range(3)]
    child = create_session(project)
    Session.objects.filter(pk=child.pk).update(spawned_by=capped[0])
    for session in capped:
        set_caps(project, {"day": 0}, session=session)
    for session in (*capped[1:], child):
        with pytest.raises(CapReached):
            reserve(Payer(project.pk, session.pk, None), "gpt-5", 1000, 500)
    events = [event for event in found_events(project) if event.event == "budget.reached"]
    refused = [(event.session, event.data["cap"]["session"]) for event in events]
    expected = [(capped[1], capped[1]), (capped[2], capped[2]), (child, capped[0])]
    assert refused == [(session.pk, str(owner.pk)) for session, owner in expected]


def test_caps_of_a_project_are_read_once_for_a_page(project: Project) -> None:
    for limit in range(1, 4):
        set_caps(project, {"day": limit})
        with pytest.raises(CapReached):
            reserve(Payer(project.pk, create_session(project).pk, None), "gpt-5", 1000, 500)
    with CaptureQueriesContext(connection) as queries:
        assert names(project).count("budget.reached") == 1
    read = [query["sql"] for query in queries if 'session_id" IS NULL' in query["sql"]]
    assert len(read) == 1


def test_a_compression_is_an_event_when_it_has_ended(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), *[draft for _ in range(20) for draft in (act(), ok())]])
    run = start_run(project, session.pk, RunRequest("simple_extract"))
    assert "compression.finished" not in names(project)
    cancel_run(run.run)
    (event,) = [event for event in found_events(project) if event.event == "compression.finished"]
    assert event.data["compression"]["state"] == "cancelled"


def test_a_deleted_session_has_no_events(project: Project, session: Session) -> None:
    from datetime import timedelta

    from django.utils import timezone

    change_session(project, session.pk, {"status": "archived"})
    purge(project, [session.pk], timezone.now() + timedelta(days=1))
    assert names(project) == []
    assert AuditRecord.objects.filter(action="purge").exists()


@pytest.mark.parametrize("error", [ValueError("unexpected"), DataError("out of range")])
def test_a_session_whose_events_cannot_be_found_delays_no_other(
    project: Project, session: Session, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, find = create_session(project), events._FINDERS[ChangeKind.SESSION_CREATED]

    def fail(group: Any) -> Iterator[WebhookEvent]:
        if group.session.pk == session.pk:
            raise error
        yield from find(group)

    monkeypatch.setitem(events._FINDERS, ChangeKind.SESSION_CREATED, fail)
    assert [event.session for event in found_events(project)] == [other.pk]


def test_finding_events_takes_the_same_queries_at_every_length(project: Project, session: Session) -> None:
    def cost() -> int:
        before = changes_since(project.pk, START, limit=1000).cursor
        append(project, session.pk, [act("make"), failed()])
        page = changes_since(project.pk, before)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            find_events(project.pk, page.changes)
        return len(queries)

    append(project, session.pk, [ask("go"), *[draft for _ in range(15) for draft in (act(), ok())]])
    few = cost()
    append(project, session.pk, [draft for _ in range(300) for draft in (act(), ok())])
    assert cost() <= few
