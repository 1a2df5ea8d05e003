"""How the timeline is drawn is in the address, and a zoom always shows the playhead's step."""

import pytest
from django.http import QueryDict
from django.test import Client

from dashboard.timeline.form import MIN_WINDOW, TimelineForm, read_timeline_form
from historyapp.core.errors import Invalid
from historyapp.models import Project, Session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import html


def read(query: str) -> TimelineForm:
    return read_timeline_form(QueryDict(query))


@pytest.mark.parametrize(
    "query", ["", "&axis=time", "&height=cost", "&axis=time&colour=outcome&zoom=101-400", "&zoom=101-400-7"]
)
def test_the_choices_are_read_from_the_address(query: str) -> None:
    assert read(query).query == query


def test_the_defaults_are_left_out_of_the_address() -> None:
    assert read("axis=step&height=tokens&zoom=").query == ""


@pytest.mark.parametrize(
    "query",
    [
        "axis=page",
        "height=width",
        "colour=red",
        "zoom=5",
        "zoom=9-3",
        "zoom=0-3",
        "zoom=a-b",
        "zoom=1-2-",
        "zoom=1-2-3-4",
    ],
)
def test_an_invalid_form_is_refused(query: str) -> None:
    with pytest.raises(Invalid):
        read(query)


@pytest.mark.parametrize("step", [1, 100, 250, 400, 999, 1_000])
def test_a_zoom_moves_to_the_step(step: int) -> None:
    window = TimelineForm(first=101, last=200).window(step, 1_000)
    assert window.first <= step <= window.last
    assert window.last - window.first == 99
    assert window.first >= 1
    assert window.last <= 1_000


@pytest.mark.parametrize(
    ("step", "part"), [(700, (101, 200, 700)), (701, (651, 750, 0)), (150, (101, 200, 0))]
)
def test_a_zoom_stays_while_the_playhead_is_where_the_reader_left_it(
    step: int, part: tuple[int, int, int]
) -> None:
    window = TimelineForm(first=101, last=200, kept_at=700).window(step, 1_000)
    assert (window.first, window.last, window.kept_at) == part
    assert window.zoomed(step, 1_000, 0.25).kept_at == 0


def test_a_playhead_before_the_part_makes_all_of_its_steps_pale(alice: Client, project: Project) -> None:
    session = long_session(project, 60)
    for step, veil in ((5, "0%"), (55, "100%")):
        page = html(alice.get(f"/sessions/{session.pk}?step={step}&zoom=21-40-{step}"))
        assert f'data-veil x="{veil}"' in page
        assert page.count('<rect class="bar kind-') == 20


def test_a_zoom_is_neither_too_small_nor_longer_than_the_run() -> None:
    assert TimelineForm(first=5, last=5).window(5, 1_000).last == 5 + MIN_WINDOW - 1
    assert TimelineForm(first=1, last=500).window(5, 100) == TimelineForm()


def test_zooming_in_and_out_keeps_the_step_in_view() -> None:
    near = TimelineForm().zoomed(700, 1_000, 0.25)
    assert (near.first, near.last) == (575, 824)
    assert near.zoomed(700, 1_000, 4) == TimelineForm()


def test_links_of_the_page_keep_the_choices(alice: Client, project: Project) -> None:
    session = long_session(project, 500)
    page = html(alice.get(f"/sessions/{session.pk}?step=120&height=duration&zoom=101-200"))
    assert 'data-view="&amp;height=duration&amp;zoom=101-200"' in page
    assert f'href="/sessions/{session.pk}?step=121&amp;height=duration&amp;zoom=101-200"' in page
    assert page.count('<rect class="bar kind-') == 100


def test_an_unknown_choice_is_a_422(alice: Client, session: Session) -> None:
    assert alice.get(f"/sessions/{session.pk}?axis=page").status_code == 422
