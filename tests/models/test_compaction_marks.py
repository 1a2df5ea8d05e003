"""Compactions come from stored figures and from the entries since, whatever the length of the history."""

from typing import Any

import pytest

from historyapp.core.entries import DebugLog, ModelInput
from historyapp.models import Project, Session
from historyapp.models.compaction_marks import MOST_READ, compactions_of
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.run_figures import count_run
from historyapp.services.sessions import create_session
from tests.services.drafts import act, draft, ok, said

MARK = draft(DebugLog(category="compaction", message="Conversation compacted"))
SUMMARY = draft(ModelInput(channel="compaction", content="So far: all well."))
STEP = [act(), ok()]


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="p")


def history_of(project: Project, *drafts: Any) -> History:
    session = create_session(project)
    append(project, session.pk, list(drafts))
    return History(Session.objects.get(pk=session.pk))


def steps(history: History) -> list[int]:
    return [one.step for one in compactions_of(history)]


def test_a_note_of_the_agent_or_its_summary_marks_a_compaction(project: Project) -> None:
    history = history_of(project, *STEP, MARK, *STEP, SUMMARY, *STEP, MARK, SUMMARY, *STEP)
    assert steps(history) == [2, 3, 4]


def test_other_inputs_and_notes_mark_nothing(project: Project) -> None:
    other = draft(DebugLog(category="hook", message="compaction"))
    assert steps(history_of(project, said("compaction"), *STEP, other, *STEP)) == []


def test_a_compaction_that_was_cut_off_is_not_marked(project: Project) -> None:
    history = history_of(project, *STEP, MARK, *STEP, *STEP)
    rewind(project, history.session.pk, Target(to_step=1))
    assert steps(History(Session.objects.get(pk=history.session.pk))) == []


def test_stored_figures_tell_of_compactions_that_are_not_read(project: Project) -> None:
    sized = act()._replace(metadata={"usage": {"input_tokens": 90_000}})
    small = act()._replace(metadata={"usage": {"input_tokens": 20_000}})
    inputs = [said("go on")] * MOST_READ["model_input"]
    history = history_of(project, *inputs, sized, ok(), SUMMARY, small, ok(), *(STEP * 300), SUMMARY, *STEP)
    assert steps(history) == []
    count_run(history)
    found = [(one.step, one.before, one.after) for one in compactions_of(history)]
    assert found == [(2, 90_000, 20_000), (303, 0, 0)]


def test_a_bounded_number_of_entries_is_read(project: Project, django_assert_num_queries: Any) -> None:
    other = draft(DebugLog(category="hook", message="x"))
    history = history_of(project, *STEP, MARK, *([other] * MOST_READ["debug_log"]), MARK, *STEP)
    with django_assert_num_queries(2):
        assert steps(history) == [2]


def test_most_histories_take_one_query(project: Project, django_assert_num_queries: Any) -> None:
    history = history_of(project, said("go"), *STEP, MARK, *STEP)
    with django_assert_num_queries(1):
        assert steps(history) == [2]
