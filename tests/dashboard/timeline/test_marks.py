"""Marks of the timeline link to their step, and are joined where they would cover each other."""

from datetime import UTC, datetime, timedelta

from django.test import Client

from dashboard.location import Location
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.marks import NEAR, TimelineMark
from dashboard.timeline.timeline import BRANCHES, Timeline, draw_timeline
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.takes import takes
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import html
from tests.services.drafts import act, ask, draft, ok

START = datetime(2026, 1, 1, tzinfo=UTC)


def timeline(session: Session, form: TimelineForm | None = None) -> Timeline:
    session.refresh_from_db()
    history = History(session)
    return draw_timeline(Location(history, 1, timeline=form or TimelineForm()), takes(history))


def marks(session: Session, kind: str) -> list[TimelineMark]:
    return [mark for mark in timeline(session).marks if mark.kind == kind]


def timed_steps(count: int) -> list[EntryDraft]:
    """Steps of ten seconds each."""
    drafts = [one for _ in range(count) for one in (act(), ok())]
    times = (START + timedelta(seconds=5 * number) for number in range(2 * count))
    return [one._replace(created_at=time) for one, time in zip(drafts, times, strict=True)]


def test_inputs_are_marked_at_the_step_after_them(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("now <b>this</b>"), act(), ok()])
    assert [(mark.step, mark.label) for mark in marks(session, "input")] == [
        (1, "Input: Repair the totals, please."),
        (6, "Input: now <b>this</b>"),
    ]


def test_inputs_of_programs_are_not_marked(project: Project, session: Session) -> None:
    append(project, session.pk, [draft(ModelInput(channel="reminder", content="stay on task")), act(), ok()])
    assert [mark.step for mark in marks(session, "input")] == [1]


def test_all_compactions_of_a_long_run_are_counted(project: Project) -> None:
    session = long_session(project, 1_000)
    summary = draft(ModelInput(channel="compaction", content="So far: all well."))
    append(project, session.pk, [one for _ in range(300) for one in (summary, act(), ok())])
    drawn = marks(session, "compaction")
    assert sum(mark.count for mark in drawn) == 300
    assert drawn[0].label == "26 compactions, steps 997–1,021"


def test_inputs_of_a_share_are_counted(project: Project) -> None:
    session = long_session(project, 5_000)
    append(project, session.pk, [one for _ in range(3) for one in (ask("go on"), act(), ok())])
    (mark,) = marks(session, "input")
    assert (mark.count, mark.label) == (3, "3 inputs, steps 4,999–5,003")


def test_marks_that_would_cover_each_other_are_joined_with_a_count(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [one for _ in range(300) for one in (ask("next"), act(), ok())])
    drawn = marks(session, "input")
    assert len(drawn) == 1 / NEAR
    assert {mark.count for mark in drawn} == {6}, "equal distances are treated alike"
    assert drawn[0].label == "6 inputs, steps 1–6"
    assert drawn[0].step == 1


def test_bookmarks_have_the_start_of_their_note(project: Project, session: Session) -> None:
    put_note(project, session.pk, 2, "look <here>")
    put_note(project, session.pk, 5)
    assert [(mark.step, mark.label) for mark in marks(session, "bookmark")] == [
        (2, "Note: look <here> · step 2"),
        (5, "Bookmark · step 5"),
    ]


def test_a_compaction_is_marked_before_its_step_and_at_the_drop_of_the_context(project: Project) -> None:
    session = create_session(project)
    for size in (40_000, 90_000):
        append(project, session.pk, [draft(ModelOutput(text="on"), usage={"input_tokens": size})])
    append(project, session.pk, [draft(ModelInput(channel="compaction", content="So far: all well."))])
    append(project, session.pk, [draft(ModelOutput(text="on"), usage={"input_tokens": 20_000})])
    (mark,) = marks(session, "compaction")
    assert (mark.step, mark.label) == (3, "Compacted before step 3: 90k → 20k tokens")
    assert [fall.label for fall in timeline(session).falls] == ["compacted 90k → 20k"]


def test_a_drop_that_shows_one_bar_late_is_recognised_as_a_compaction_too(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [draft(ModelOutput(text="on"), usage={"input_tokens": 90_000})])
    append(project, session.pk, [draft(ModelInput(channel="compaction", content="So far.")), act(), ok()])
    append(project, session.pk, [draft(ModelOutput(text="on"), usage={"input_tokens": 20_000})])
    assert [fall.label for fall in timeline(session).falls] == ["compacted 90k → 20k"]


def test_labels_of_drops_do_not_cover_each_other(project: Project) -> None:
    session = create_session(project)
    sizes = [size for _ in range(20) for size in (90_000, 20_000)]
    drafts = [draft(ModelOutput(text="on"), usage={"input_tokens": size}) for size in sizes]
    append(project, session.pk, drafts)
    assert [fall.step for fall in timeline(session).falls] == [2, 8, 14, 20, 26, 32, 38]


def test_matches_of_a_search_are_drawn_where_their_steps_are(session: Session) -> None:
    location = Location(History(session), 1)
    assert draw_timeline(location, [], [2, 4]).hits == ["30.0%", "70.0%"]
    assert draw_timeline(location, [], [99]).hits == []


def test_a_rewind_is_marked_where_it_cut_and_leads_to_its_take(project: Project, session: Session) -> None:
    height = timeline(session).height
    rewind(project, session.pk, Target(to_step=2))
    (mark,) = marks(session, "rewind")
    assert mark.label == "Rewound to step 2: 3 steps cut off"
    assert "as_of=" in mark.href
    assert mark.step == 0
    assert timeline(session).height > height + BRANCHES


def test_a_fork_is_marked_in_both_sessions_and_leads_to_the_other(project: Project, session: Session) -> None:
    new = fork(project, session.pk, at_step=3, title="second <try>")
    (mark,) = marks(session, "fork")
    assert (mark.label, mark.href) == ("Fork after step 3: second <try>", f"/sessions/{new.pk}")
    assert (mark.x, mark.ends_here) == ("60.00%", True), "at the end of step 3, not below step 4"
    (origin,) = marks(new, "fork")
    assert (origin.label, origin.href) == (
        "Forked from another session after step 3",
        f"/sessions/{session.pk}",
    )
    assert (origin.x, origin.ends_here) == ("100.00%", True)


def test_a_fork_outside_of_the_zoom_is_not_marked(project: Project) -> None:
    session = long_session(project, 1_000)
    fork(project, session.pk, at_step=500)
    zoomed = timeline(session, TimelineForm(first=1, last=100))
    assert [mark.kind for mark in zoomed.marks] == []
    around = Location(History(session), 500, timeline=TimelineForm(first=450, last=549))
    assert [mark.kind for mark in draw_timeline(around, []).marks] == ["fork"]


def test_a_subagent_is_marked_at_the_step_during_which_it_began(project: Project) -> None:
    session, child = create_session(project), create_session(project, names={"title": "Explore"})
    append(project, session.pk, timed_steps(4))
    Session.objects.filter(pk=child.pk).update(spawned_by=session, created_at=START + timedelta(seconds=22))
    (mark,) = marks(session, "agent")
    assert (mark.label, mark.href, mark.x) == ("Sub-agent: Explore", f"/sessions/{child.pk}", "50.00%")


def test_a_subagent_that_began_outside_of_the_run_is_not_marked(project: Project) -> None:
    session, child = create_session(project), create_session(project)
    append(project, session.pk, timed_steps(4))
    for seconds in (-60, 60):
        began = START + timedelta(seconds=seconds)
        Session.objects.filter(pk=child.pk).update(spawned_by=session, created_at=began)
        assert marks(session, "agent") == []


def test_a_subagent_is_marked_at_the_call_that_started_it_at_any_time(project: Project) -> None:
    session, child = create_session(project), create_session(project)
    append(project, session.pk, timed_steps(4))
    Session.objects.filter(pk=child.pk).update(spawned_by=session, spawned_position=5)
    (mark,) = marks(session, "agent")
    assert mark.x == "50.00%"


def test_a_subagent_that_was_started_before_the_part_is_not_marked(project: Project) -> None:
    session, child = long_session(project, 1_000), create_session(project)
    Session.objects.filter(pk=child.pk).update(spawned_by=session, spawned_position=201)
    assert [mark.label for mark in marks(session, "agent")] == ["Sub-agent: untitled"]
    assert timeline(session, TimelineForm(first=1, last=100)).marks == []
    later = Location(History(session), 500, timeline=TimelineForm(first=450, last=549))
    assert draw_timeline(later, []).marks == []


def test_several_subagents_at_one_place_lead_to_the_step(project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, timed_steps(4))
    for _ in range(3):
        child = create_session(project)
        Session.objects.filter(pk=child.pk).update(
            spawned_by=session, created_at=START + timedelta(seconds=12)
        )
    (mark,) = marks(session, "agent")
    assert (mark.step, mark.count, mark.label) == (2, 3, "3 sub-agents, from here on")


def test_each_kind_of_mark_has_a_title_and_is_in_the_legend(
    alice: Client, project: Project, session: Session
) -> None:
    fork(project, session.pk, at_step=3, title="</title><script>alert(1)</script>")
    put_note(project, session.pk, 1)
    page = html(alice.get(f"/sessions/{session.pk}?step=1"))
    for kind, word in (("fork", "fork"), ("bookmark", "bookmark"), ("input", "input")):
        assert f'<use href="#mark-{kind}"/></svg>{word}</li>' in page
    assert "<script>alert" not in page
    assert "<title>Fork after step 3: &lt;/title&gt;" in page
