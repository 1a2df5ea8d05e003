"""The minimap shows the whole of a long run, whatever part the timeline shows."""

import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client

from dashboard.location import Location
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.minimap import SLICES, Minimap
from dashboard.timeline.shares import MAX_SHARES, MAX_SINGLE
from dashboard.timeline.timeline import Timeline, draw_timeline
from historyapp.core.entries import ModelInput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from tests.dashboard.long_sessions import ERROR_EVERY, long_session
from tests.dashboard.pages import html
from tests.services.drafts import act, ask, draft, ok

HTMX = {"HX-Request": "true"}


def timeline(session: Session, step: int = 1, form: TimelineForm | None = None) -> Timeline:
    return draw_timeline(Location(History(session), step, timeline=form or TimelineForm()), [])


def minimap(session: Session, step: int = 1, form: TimelineForm | None = None) -> Minimap:
    drawn = timeline(session, step, form).minimap
    assert drawn is not None
    return drawn


@pytest.mark.parametrize(("steps", "expected"), [(MAX_SINGLE, False), (MAX_SINGLE + 1, True)])
def test_long_sessions_have_a_minimap(project: Project, steps: int, *, expected: bool) -> None:
    assert (timeline(long_session(project, steps)).minimap is not None) == expected


def test_without_a_zoom_its_window_is_the_whole_run(project: Project) -> None:
    drawn = minimap(long_session(project, 1_000))
    assert (drawn.first, drawn.last, drawn.x, drawn.width) == (1, 1_000, "0.00%", "100.00%")


def test_a_zoom_leaves_the_picture_and_moves_the_window(project: Project) -> None:
    session = long_session(project, 5_000)
    whole, zoomed = minimap(session), minimap(session, 1_150, TimelineForm(first=1_001, last=1_500))
    assert (zoomed.x, zoomed.width, zoomed.playhead) == ("20.00%", "10.00%", "22.99%")
    assert zoomed.failures == whole.failures


def test_columns_of_failures_are_proportional_to_their_density(project: Project) -> None:
    session = long_session(project, 1_000)
    heights = [int(high) for high in re.findall(r"v-(\d+)", minimap(session).failures)]
    assert len(heights) == 1_000 // ERROR_EVERY
    assert minimap(session).failures.startswith("M48 16v-9h4v9z"), "steps 49 to 52"
    assert set(heights) == {9}  # one of four steps failed: half of the height above the least


def test_inputs_are_drawn(project: Project) -> None:
    session = long_session(project, 1_000)
    append(project, session.pk, [ask("go on"), act(), ok()])
    session.refresh_from_db()
    assert minimap(session).inputs == "M999 0v5"


def test_compactions_are_drawn_longer_where_they_are_dense(project: Project) -> None:
    session = long_session(project, 1_000)
    assert minimap(session).compactions == ""
    summary = draft(ModelInput(channel="compaction", content="So far: all well."))
    append(project, session.pk, [one for _ in range(6) for one in (summary, act(), ok())])
    session.refresh_from_db()
    assert minimap(session).compactions == "M994 22v-5M999 22v-3"


def test_steps_that_match_the_search_are_drawn(project: Project) -> None:
    location = Location(History(long_session(project, 5_000)), 1)
    drawn = draw_timeline(location, [], [3, 4, 2_500, 5_000]).minimap
    assert drawn is not None
    assert drawn.hits == "M0 7v-7h4v7zM496 7v-6h4v6zM996 7v-6h4v6z", "two hits in the first part, then one"
    assert (drawn.searched_from, drawn.searched_to) == ("0.00%", "100.00%")
    shown = render_to_string("timeline/_map.html", {"map": drawn})
    assert "map-hits" in shown
    assert "display" not in shown


def test_the_minimap_shows_which_steps_are_not_searched_yet(project: Project) -> None:
    location = Location(History(long_session(project, 5_000)), 1)
    drawn = draw_timeline(location, [], [1_001, 2_500], (1_001, 2_500)).minimap
    assert drawn is not None
    assert (drawn.searched_from, drawn.searched_to) == ("20.00%", "50.00%")


def test_without_a_search_the_minimap_has_no_lane_of_hits(project: Project) -> None:
    shown = render_to_string("timeline/_map.html", {"map": minimap(long_session(project, 500))})
    assert 'display="none"' in shown


def test_links_of_the_minimap_cover_the_run_and_keep_the_playhead_in_the_part(project: Project) -> None:
    session = long_session(project, 5_000)
    slices = minimap(session, 600).slices
    assert len(slices) == SLICES
    assert slices[0].href == f"/sessions/{session.pk}?step=250&zoom=1-250"
    assert slices[-1].href == f"/sessions/{session.pk}?step=4751&zoom=4751-5000"
    assert [(one.x, one.width) for one in (slices[0], slices[-1])] == [
        ("0.00%", "5.00%"),
        ("95.00%", "5.00%"),
    ]


def test_with_a_zoom_the_links_lead_to_parts_of_the_same_length(project: Project) -> None:
    session = long_session(project, 5_000)
    zooms = [TimelineForm(first=1_101, last=last) for last in (1_300, 2_100)]
    short, long = (
        [tuple(map(int, re.findall(r"zoom=(\d+)-(\d+)", link.href)[0])) for link in shown.slices]
        for shown in (minimap(session, 1_150, zoom) for zoom in zooms)
    )
    assert {last - first + 1 for first, last in short} == {200}
    assert (short[0], short[10], short[-1]) == ((26, 225), (2_526, 2_725), (4_776, 4_975))
    assert (long[0], long[10], long[-1]) == ((1, 1_000), (2_126, 3_125), (4_001, 5_000))


@pytest.mark.parametrize("zoom", ["", "&zoom=101-400"])
def test_the_minimap_takes_the_same_queries_at_every_length(
    project: Project, zoom: str, django_assert_num_queries: Any
) -> None:
    form = TimelineForm(first=101, last=400) if zoom else TimelineForm()
    sessions = [long_session(project, steps) for steps in (1_000, 5_000)]
    for session in sessions:
        with django_assert_num_queries(3):
            drawn = timeline(session, 150, form)
        assert drawn.minimap is not None
        assert len(drawn.minimap.failures) < 20 * MAX_SHARES


def test_the_timeline_is_redrawn_without_loading_the_page(alice: Client, project: Project) -> None:
    session = long_session(project, 1_000)
    query = "?step=120&height=duration&zoom=101-200"
    part = html(alice.get(f"/sessions/{session.pk}/timeline{query}", headers=HTMX))
    assert 'data-view="&amp;height=duration&amp;zoom=101-200"' in part
    assert 'data-first="101" data-last="200"' in part
    assert '<ul id="timeline-colours" hx-swap-oob="innerHTML">' in part
    assert '<div id="timeline-form" hx-swap-oob="innerHTML">' in part
    assert "<html" not in part


def test_without_scripts_the_fragment_redirects_to_the_page(alice: Client, session: Session) -> None:
    response = alice.get(f"/sessions/{session.pk}/timeline?step=2&axis=time")
    assert response.headers["Location"] == f"/sessions/{session.pk}?step=2&axis=time"


def test_a_stranger_sees_no_timeline(charlie: Client, session: Session) -> None:
    assert charlie.get(f"/sessions/{session.pk}/timeline?step=1", headers=HTMX).status_code == 404
