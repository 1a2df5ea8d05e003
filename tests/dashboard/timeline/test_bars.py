"""Bars have the colour of their kind of tool or of their outcome, and the legend names the colours in use."""

import pytest
from django.test import Client

from dashboard.location import Location
from dashboard.timeline.bars import bar_at, place_of
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.timeline import Timeline, draw_timeline
from historyapp.core.entries import EntryDraft, ModelOutput, ToolResult, ToolResults
from historyapp.models import Episode, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import html
from tests.services.drafts import act, draft

BY_OUTCOME = TimelineForm(colour="outcome")


def timeline(session: Session, form: TimelineForm) -> Timeline:
    return draw_timeline(Location(History(session), 1, timeline=form), [])


def test_bars_can_show_outcomes(session: Session) -> None:
    Episode.objects.filter(session=session, number=2).update(likely_failure="exit_code")
    drawn = timeline(session, BY_OUTCOME)
    assert [bar.style for bar in drawn.bars[:3]] == [
        "bar outcome-success",
        "bar outcome-likely",
        "bar outcome-error",
    ]
    assert {word for style, word in drawn.legend if style.startswith("outcome-")} >= {
        "success",
        "likely failed",
        "error",
    }


def test_the_legend_names_every_style_whatever_the_colours(project: Project, session: Session) -> None:
    """Each class of a bar that sets its fill or its outline has an entry."""
    refused = draft(ToolResults(results=(ToolResult(status="interrupted_by_human", feedback="stop"),)))
    calls = [act("bash", command="ls"), refused, act("bash", command="ls")]
    append(project, session.pk, [*calls, EntryDraft(ModelOutput(text="Done.")), act("unheard_of", x=1)])
    session.refresh_from_db()
    own = {"interrupted", "no result", "answer", "in flight"}
    by_tool, by_outcome = (timeline(session, form).legend for form in (TimelineForm(), BY_OUTCOME))
    assert {word for style, word in by_tool if style.startswith("kind-")} == {"read", "shell", "other"}
    assert {word for style, word in by_tool if style.startswith("outcome-")} == own
    assert {word for style, word in by_outcome if style.startswith("outcome-")} == own | {"success", "error"}


def test_bars_without_a_tool_are_in_the_legend(project: Project, session: Session) -> None:
    Episode.objects.filter(session=session, number=2).update(kind="")
    assert ("kind-other", "other") in timeline(session, TimelineForm()).legend
    many = long_session(project, 500)
    Episode.objects.filter(session=many).update(kind="")
    assert ("outcome-success", "no tool") in timeline(many, TimelineForm()).legend


def test_the_failed_part_of_a_share_is_proportional_to_its_errors(project: Project) -> None:
    session = long_session(project, 50_000)
    bar = timeline(session, BY_OUTCOME).bars[0]
    assert bar.style == "bar outcome-success bar-share"
    assert bar.svg("").count('class="bar outcome-error"') == 1
    assert 'height="2"' in bar.svg("")  # 4 of 200 steps: less than a pixel would show nothing
    assert bar.label.startswith("steps 1–200 · 4 errors")


def test_a_share_has_the_colour_of_one_of_its_steps_and_says_so(project: Project) -> None:
    bar = timeline(long_session(project, 5_000), TimelineForm()).bars[0]
    assert bar.style == "bar bar-share kind-read"
    assert bar.label.endswith("one of them read")


@pytest.mark.parametrize("step", [0, 6])
def test_a_step_that_is_not_shown_has_no_place(session: Session, step: int) -> None:
    bars = timeline(session, TimelineForm()).bars
    assert bar_at(bars, step) is None
    assert place_of(bars, step) is None


def test_the_middle_of_a_step_is_at_half_of_its_width(session: Session) -> None:
    bars = timeline(session, TimelineForm()).bars
    assert place_of(bars, 3.5) == pytest.approx(2.5 / 5)


def test_the_page_offers_both_colours_and_marks_the_chosen_one(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=2&colour=outcome"))
    assert 'class="bar outcome-error"' in page
    assert '<li class="outcome-error"><i></i>error</li>' in page
    assert f'href="/sessions/{session.pk}?step=2" data-keeps-step' in page  # back to tools
