"""In an ended session no step is in flight, and a grown file can still add a missing result."""

import pytest

from historyapp.core.conversation import Status
from historyapp.core.episodes import STATUSES
from historyapp.core.errors import Conflict
from historyapp.core.importers.base import Append
from historyapp.models import Entry, Episode, Project, Session
from historyapp.models.history import History
from historyapp.models.step_filters import StepFilter, StepSearch
from historyapp.services.actions import register_action, register_result
from historyapp.services.append import append
from historyapp.services.projections import parents_first, rebuild
from historyapp.services.sessions import change_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.services.drafts import act, ok, tool_calls
from tests.services.scripts import Script, read

OPEN = [Append("s", draft) for draft in (tool_calls("a"), ok("a"), tool_calls("b", "c"), ok("b"))]


@pytest.fixture
def ended(project: Project, script: Script) -> Session:
    """Imported from a file whose last call has no result."""
    read(project, script, *OPEN)
    return Session.objects.get()


def statuses(session: Session, as_of: int | None = None) -> list[str]:
    session.refresh_from_db()
    history = History(session, as_of)
    shown = [row.status for row in history.rows(1, history.steps)]
    assert [step.status for step in history.sample(range(1, history.steps + 1))] == shown
    assert [row.status for row, _ in history.with_bodies(history.rows(1, history.steps))] == shown
    for status in STATUSES:
        matching = StepSearch(history, StepFilter(status=status), range(1, history.steps + 1)).find(10)
        assert [row.status for row in matching.rows] == [status] * shown.count(status)
    return shown


def sound() -> None:
    for session in parents_first():
        assert rebuild(session, check_only=True).differences == []


def test_the_open_last_call_of_an_import_is_abandoned_and_gets_no_result(ended: Session) -> None:
    assert statuses(ended) == ["success", "abandoned"]
    assert Entry.objects.count() == len(OPEN)
    assert Episode.objects.get(number=2).unanswered == 1
    sound()


def test_a_grown_file_brings_the_result(project: Project, script: Script, ended: Session) -> None:
    grown = [*OPEN, Append("s", ok("c"))]
    assert read(project, script, *grown).total("added") == 1
    assert Session.objects.get() == ended
    assert statuses(ended) == ["success", "success"]
    assert Entry.objects.filter(kind="rewind").count() == 0
    sound()


def test_a_grown_file_can_continue_without_the_result(
    project: Project, script: Script, ended: Session
) -> None:
    read(project, script, *OPEN, Append("s", tool_calls("d")))
    assert statuses(ended) == ["success", "abandoned", "abandoned"]
    sound()


def test_a_step_can_be_read_as_of_an_earlier_position(ended: Session) -> None:
    assert statuses(ended, 3) == ["success", "in_flight"]
    assert statuses(ended, ended.head) == ["success", "abandoned"]


@pytest.mark.parametrize(
    ("status", "shown"), [("live", "in_flight"), ("finished", "abandoned"), ("archived", "abandoned")]
)
def test_a_step_is_in_flight_only_in_a_live_session(
    project: Project, ended: Session, status: str, shown: Status
) -> None:
    change_session(project, ended.pk, {"status": status})
    assert statuses(ended)[-1] == shown


def test_a_result_after_the_end_is_accepted(project: Project, ended: Session) -> None:
    append(project, ended.pk, [ok("c")])
    assert statuses(ended) == ["success", "success"]


def test_an_ended_session_accepts_another_action(project: Project, ended: Session) -> None:
    register_action(project, ended.pk, act("grep"))
    assert statuses(ended) == ["success", "abandoned", "in_flight"]
    with pytest.raises(Conflict, match="already set"):
        register_action(project, ended.pk, act("grep"))
    register_result(project, ended.pk, ok())
    assert statuses(ended) == ["success", "abandoned", "success"]
    sound()


def test_a_step_that_may_still_get_a_result_is_not_summarised(project: Project, ended: Session) -> None:
    with pytest.raises(Conflict, match="still in flight"):
        add_summary(project, ended.pk, (1, 2), SummaryText("both"))
    assert add_summary(project, ended.pk, (1, 1), SummaryText("the first"))
