"""The timeline."""

import re
from itertools import pairwise

import pytest

from dashboard.location import Location
from dashboard.timeline.bars import FAILURE, FAILURES, HEIGHT, MIN
from dashboard.timeline.form import TimelineForm
from dashboard.timeline.shares import MAX_SHARES, MAX_SINGLE
from dashboard.timeline.timeline import LANES, Timeline, draw_timeline
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Episode, Project, Session
from historyapp.models.history import History
from historyapp.models.takes import takes
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.services.drafts import act, ask, ok


def timeline(session: Session, step: int = 1) -> Timeline:
    session.refresh_from_db()
    history = History(session)
    return draw_timeline(Location(history, step), takes(history))


def share(percentage: str) -> float:
    return float(percentage.removesuffix("%"))


def test_a_short_session_has_a_bar_for_each_step(session: Session) -> None:
    bars = timeline(session).bars
    assert [(bar.first, bar.last) for bar in bars] == [(n, n) for n in range(1, 6)]
    assert [bar.share.errors for bar in bars] == [0, 0, 1, 0, 0]
    assert bars[2].label == f"step 3 · read_file · error · {bars[2].share.tokens} tokens"


def test_heights_follow_tokens_and_no_bar_vanishes(project: Project, session: Session) -> None:
    append(project, session.pk, [act("cat"), ok(outputs="word " * 5_000)])
    heights = [bar.height for bar in timeline(session).bars]
    assert max(heights) == heights[-1] == HEIGHT
    assert min(heights) >= MIN


def test_an_empty_session_has_an_empty_timeline(project: Project) -> None:
    assert timeline(create_session(project), 0).bars == []


@pytest.mark.parametrize("steps", [MAX_SINGLE, MAX_SINGLE + 1, 999, 5_000])
def test_bars_cover_every_step_once(project: Project, steps: int) -> None:
    bars = timeline(long_session(project, steps)).bars
    assert len(bars) <= (MAX_SINGLE if steps <= MAX_SINGLE else MAX_SHARES)
    assert bars[0].first == 1
    assert bars[-1].last == steps
    assert all(older.last + 1 == newer.first for older, newer in pairwise(bars))


@pytest.mark.parametrize("steps", [1, 3, 50, 200, 400, 5_000])
def test_the_timeline_is_as_wide_as_the_page(project: Project, steps: int) -> None:
    bars = timeline(long_session(project, steps)).bars
    assert share(bars[-1].x) + share(bars[-1].width) == pytest.approx(100, abs=0.5)
    gaps = [share(newer.x) - share(older.x) - share(older.width) for older, newer in pairwise(bars)]
    assert all(-0.02 < gap < 0.35 for gap in gaps)


def test_shares_add_up_to_the_whole(project: Project) -> None:
    session = long_session(project, 5_000)
    bars = timeline(session).bars
    assert sum(bar.share.tokens for bar in bars) == History(session).tail.totals.tokens
    assert sum(bar.share.errors for bar in bars) == session.errors


def test_a_share_of_one_step_has_the_tokens_that_the_list_shows(project: Project) -> None:
    """Not those of the input before the step: it is no part of the step."""
    session = long_session(project, 450)
    append(project, session.pk, [ask("Go on with the rest of it, please."), act(), ok()])
    bar = timeline(session).bars[-1]
    assert (bar.share.first, bar.share.last) == (451, 451)
    assert bar.share.tokens == History(session).row(451).tokens


@pytest.mark.parametrize("block", [2, 16])
def test_shares_add_up_after_many_rewinds(
    project: Project, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", block)
    session = long_session(project, 100)
    for _ in range(24):
        append(project, session.pk, [draft for _ in range(20) for draft in (act(), ok())])
        rewind(project, session.pk, Target(episodes=1))
    bars = timeline(session).bars
    assert 100 <= len(bars) <= MAX_SHARES
    assert (bars[0].first, bars[-1].last) == (1, 556)
    assert all(older.last + 1 == newer.first for older, newer in pairwise(bars))
    assert sum(bar.share.tokens for bar in bars) == History(session).tail.totals.tokens
    assert sum(bar.share.errors for bar in bars) == session.errors


def test_the_mark_of_a_share_has_the_density_of_its_errors(project: Project) -> None:
    bar = timeline(long_session(project, 50_000)).bars[0]
    assert (bar.style, bar.last, bar.share.errors) == ("bar bar-share kind-read", 200, 4)
    mark = f'class="failed" x="{bar.x}" width="{bar.width}" y="{FAILURES}" height="{FAILURE}" opacity="0.27"'
    assert mark in bar.svg("")


def test_takes_are_below_the_steps_that_replaced_them(project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    (take,) = timeline(session).takes
    assert share(take.x) == pytest.approx(100 * 2 / 5, abs=0.01)
    assert share(take.width) == pytest.approx(100 * 3 / 5, abs=0.01)


def test_takes_at_one_place_are_in_separate_lanes(project: Project, session: Session) -> None:
    for _ in range(5):
        rewind(project, session.pk, Target(to_step=2))
        append(project, session.pk, [act(), ok()])
    assert [bar.lane for bar in timeline(session).takes] == [0, 1, 2, 2, 2]
    assert LANES == 3


def test_a_take_longer_than_the_remaining_steps_stays_inside(project: Project) -> None:
    session = long_session(project, 300)
    rewind(project, session.pk, Target(to_step=2))
    drawn = timeline(session)
    assert drawn.slots == 300
    assert all(share(take.x) + share(take.width) <= 100.01 for take in drawn.takes)


def test_the_name_of_a_tool_is_escaped(project: Project, session: Session) -> None:
    append(project, session.pk, [act("</title><script>alert(1)</script>")])
    assert "<script" not in timeline(session).svg_bars


def test_each_bar_links_to_its_first_step(project: Project) -> None:
    drawn = timeline(long_session(project, 1_000))
    assert [int(step) for step in re.findall(r"\?step=(\d+)", drawn.svg_bars)] == [
        bar.first for bar in drawn.bars
    ]


def shell(command: str, exit_text: str, **metadata: object) -> list[EntryDraft]:
    return [act("bash", command=command)._replace(metadata=metadata), ok(outputs=exit_text)]


def test_bars_have_the_kind_of_their_tool_and_the_legend_names_it(project: Project, session: Session) -> None:
    append(project, session.pk, [*shell("ls", "a.py"), EntryDraft(ModelOutput(text="Done."))])
    drawn = timeline(session)
    assert [bar.style for bar in drawn.bars[-2:]] == ["bar kind-shell", "bar kind-other bar-answered"]
    assert [word for style, word in drawn.legend if style.startswith("kind-")] == ["shell", "read"]


def test_a_likely_failure_is_outlined_and_named(project: Project, session: Session) -> None:
    append(project, session.pk, shell("ls", "ok"))
    Episode.objects.filter(session=session, number=2).update(likely_failure="exit_code")
    drawn = timeline(session)
    assert ("key-likely", "likely failed") in drawn.legend
    assert 'class="likely"' in drawn.bars[1].svg("")
    assert "likely failed" in drawn.bars[1].label
    assert 'class="failed"' in drawn.bars[2].svg("")


def test_the_context_has_a_lane_if_its_size_was_reported(project: Project, session: Session) -> None:
    assert timeline(session).context == ""
    for size in (40_000, 90_000, 70_000, 66_000):
        append(project, session.pk, shell("ls", "ok", usage={"input_tokens": size, "output_tokens": 9}))
    drawn = timeline(session)
    assert [bar.share.context for bar in drawn.bars[-4:]] == [40_000, 90_000, 70_000, 66_000]
    assert drawn.context.startswith("M")
    assert [(fall.label, fall.step) for fall in drawn.falls] == [("90k → 70k", 8)]


def test_bars_can_show_what_a_step_cost(project: Project, session: Session) -> None:
    for cost in (0.02, 0.08):
        append(project, session.pk, shell("ls", "ok", usage={"input_tokens": 9}, cost=cost))
    session.refresh_from_db()
    location = Location(History(session), 1, timeline=TimelineForm(height="cost"))
    bars = draw_timeline(location, []).bars
    assert [bar.share.cost for bar in bars[-2:]] == [20_000, 80_000]
    assert bars[-1].height == HEIGHT
    assert bars[-1].label.endswith("$0.08")


def test_a_bar_is_priced_though_another_model_reported_its_cost(project: Project, session: Session) -> None:
    usage = {"input_tokens": 1_000_000}
    append(project, session.pk, shell("ls", "ok", usage=usage, cost=0.02, model="some-model"))
    append(project, session.pk, shell("ls", "ok", usage=usage, model="gpt-5"))
    session.refresh_from_db()
    location = Location(History(session), 1, timeline=TimelineForm(height="cost"))
    reported, priced = [bar.share.cost for bar in draw_timeline(location, []).bars[-2:]]
    assert reported == 20_000
    assert priced > reported


def test_a_zoom_into_shares_shows_steps(project: Project) -> None:
    session = long_session(project, 5_000)
    location = Location(History(session), 1_150, timeline=TimelineForm(first=1_101, last=1_300))
    drawn = draw_timeline(location, [])
    assert [bar.first for bar in drawn.bars] == list(range(1_101, 1_301))
    assert drawn.playhead == "24.75%"


def test_shares_of_a_zoom_add_up(project: Project) -> None:
    session = long_session(project, 5_000)
    location = Location(History(session), 1_150, timeline=TimelineForm(first=1_001, last=3_000))
    bars = draw_timeline(location, []).bars
    assert (bars[0].first, bars[-1].last) == (1_001, 3_000)
    assert sum(bar.share.tokens for bar in bars) == 2_000 * 500
    assert sum(bar.share.errors for bar in bars) == 40
