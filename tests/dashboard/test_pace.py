"""How long a replay shows a step."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client

from dashboard.pace import MAX_PAUSE, MIN, SHORTENED, Pace, StepTimes, Writing, pace_of, replay_time
from historyapp.core.dates import UNDATED
from historyapp.models import Project
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import html
from tests.services.drafts import act, draft, ok

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = Writing(0)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


BEFORE = StepTimes(after(-5), START)
"""A step that ended at the start."""


def pace(
    started: float,
    finished: float | None = None,
    *,
    input_at: float | None = None,
    before: StepTimes | None = BEFORE,
    writing: Writing = NOTHING,
) -> Pace:
    span = StepTimes(after(started), None if finished is None else after(finished))
    timing = pace_of(span, before, None if input_at is None else after(input_at), writing)
    assert timing is not None
    return timing


def test_the_time_of_a_step_begins_at_the_end_of_the_previous_one() -> None:
    timing = pace(4, 5.5)
    assert timing.begins_at == START
    assert (timing.pause.took, timing.model.took, timing.tools.took) == (0, 4_000, 1_500)
    assert timing.shown == 5_500


def test_the_time_until_an_input_of_a_person_is_a_pause() -> None:
    timing = pace(24, 25, input_at=20)
    assert (timing.pause.took, timing.model.took, timing.tools.took) == (20_000, 4_000, 1_000)


def test_an_input_while_tools_run_makes_no_pause() -> None:
    assert pace(4, 5, input_at=-2).pause.took == 0


def test_the_first_step_begins_with_the_input() -> None:
    timing = pace(4, 5, input_at=1, before=None)
    assert timing.begins_at == after(1)
    assert (timing.pause.took, timing.model.took) == (0, 3_000)


def test_the_first_step_without_an_input_begins_with_its_output() -> None:
    timing = pace(4, 5, before=None)
    assert timing.begins_at == after(4)
    assert (timing.pause.took, timing.model.took, timing.tools.took) == (0, 0, 1_000)


@pytest.mark.parametrize("seconds", [31, 12 * 60, 3 * 24 * 3600])
def test_long_stretches_are_shortened(seconds: int) -> None:
    timing = pace(seconds + 40, 2 * seconds + 40, input_at=seconds)
    assert [stretch.shown for stretch in (timing.pause, timing.model, timing.tools)] == [SHORTENED] * 3
    assert (timing.pause.took, timing.tools.took) == (seconds * 1000, seconds * 1000)


def test_stretches_up_to_thirty_seconds_keep_their_time() -> None:
    assert pace(30, 60).shown == 60_000


def test_a_step_without_a_result_ends_with_its_output() -> None:
    timing = pace(4)
    assert (timing.model.took, timing.tools.took) == (4_000, 0)


def test_a_step_without_a_duration_is_shown_briefly() -> None:
    assert pace(0, 0).shown == MIN


@pytest.mark.parametrize(("started", "finished"), [(-10, 2), (3, 1), (-10, -20)])
def test_a_clock_that_was_set_back_takes_no_time(started: float, finished: float) -> None:
    timing = pace(started, finished, input_at=-30)
    assert all(stretch.took >= 0 for stretch in (timing.pause, timing.model, timing.tools))
    assert timing.begins_at <= after(started)
    assert timing.shown >= MIN


@pytest.mark.parametrize("before", [None, StepTimes(UNDATED, UNDATED), BEFORE])
def test_an_undated_step_has_no_pace(before: StepTimes | None) -> None:
    assert pace_of(StepTimes(UNDATED, UNDATED), before, UNDATED, NOTHING) is None


def test_undated_neighbours_count_as_absent() -> None:
    timing = pace_of(StepTimes(after(4), UNDATED), StepTimes(UNDATED, UNDATED), UNDATED, NOTHING)
    assert timing is not None
    assert (timing.begins_at, timing.shown) == (after(4), MIN)


def test_text_without_reported_tokens_ends_with_the_model_call() -> None:
    timing = pace(4, writing=Writing(characters=400))
    assert (timing.text_from, timing.text_for) == (0, 4_000)


def test_the_text_takes_its_share_of_the_output_before_the_arguments() -> None:
    timing = pace(4, writing=Writing(characters=400, tokens=400))  # 100 tokens are text, the rest is a call
    assert (timing.text_from, timing.text_for) == (0, 1_000)


def test_hidden_reasoning_comes_before_the_text() -> None:
    timing = pace(4, writing=Writing(characters=400, tokens=400, hidden=200))
    assert (timing.text_from, timing.text_for) == (2_000, 1_000)


def test_a_short_text_does_not_fill_a_long_call() -> None:
    timing = pace(20, writing=Writing(characters=40))
    assert (timing.text_from, timing.text_for) == (18_000, 2_000)


def test_the_text_of_a_shortened_call_is_shortened_too() -> None:
    timing = pace(600, writing=Writing(characters=4_000, tokens=2_000))
    assert (timing.text_from, timing.text_for) == (0, 1_000)


@pytest.mark.parametrize("tokens", [1, 99, 5_000])
def test_the_text_stays_within_its_model_call_for_any_reported_times(tokens: int) -> None:
    timing = pace(4, writing=Writing(characters=400, tokens=tokens, hidden=50))
    assert timing.text_from >= 0
    assert timing.text_from + timing.text_for <= timing.model.shown


def test_a_step_without_text_has_nothing_to_reveal() -> None:
    assert pace(4, 5).text_for == 0


def test_scripts_shorten_turns_by_the_same_rule() -> None:
    script = Path("static/js/replay.js").read_text()
    assert f"[MAX_PAUSE, SHORTENED, MIN] = [{MAX_PAUSE:_}, {SHORTENED:_}, {MIN}]" in script


def record(project: Project, *times: tuple[float, float]) -> History:
    """Steps, given by the times of their outputs and results."""
    session = create_session(project)
    drafts = [(draft(act("ls").body, after(a)), draft(ok().body, after(b))) for a, b in times]
    append(project, session.pk, [each for pair in drafts for each in pair])
    session.refresh_from_db()
    return History(session)


def test_the_replay_time_counts_shortened_stretches(project: Project) -> None:
    history = record(project, (0, 4), (1_000, 1_000), (1_003, 1_023))
    last, middle, first = 3_000 + 20_000, SHORTENED, 4_000
    assert replay_time(history) == (1, [0, last, last + middle, last + middle + first])


def test_a_run_without_times_has_no_replay_time_and_plays_one_step_a_beat(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    append(project, session.pk, [draft(act("ls").body, UNDATED), draft(ok().body, UNDATED)])
    session.refresh_from_db()
    assert replay_time(History(session)).times == []
    page = html(alice.get(f"/sessions/{session.pk}"))
    assert 'title="Pace of the replay. This run has no times."' in page
    assert '<option value="recorded" disabled>no times recorded</option>' in page
    assert '<option value="step" selected>' in page
    assert re.search(r'class="clock[^>]*>\s*undated', page)


def test_the_replay_time_of_a_long_session_is_estimated_from_some_steps(project: Project) -> None:
    timing = replay_time(History(long_session(project, 1_003)))
    assert timing.size == 6
    assert timing.times == [6 * MIN * n for n in range(169)]
