"""Bars by time are at the times of their steps, and long pauses are shortened and shown."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest

from dashboard.timeline.axis import MIN_WIDTH, Tick, places_by_step, places_by_time, ticks_by_time
from dashboard.timeline.shares import StepShare
from historyapp.models.episodes import StepSample

START = datetime(2026, 1, 1, tzinfo=UTC)


def share(number: int, begin: float, end: float) -> StepShare:
    """A step that ran between two times, in seconds after the start."""
    started, ended = START + timedelta(seconds=begin), START + timedelta(seconds=end)
    row = StepSample(uuid4(), number, number, "success", [], 0, 0, 0, started_at=started, finished_at=ended)
    return StepShare(number, row, 0, 0, 0, started)


def test_the_width_of_a_step_is_its_duration() -> None:
    places, pauses = places_by_time([share(1, 0, 10), share(2, 10, 40)])
    assert places == [(0, 0.25), (0.25, 1)]
    assert pauses == []


def test_a_long_pause_is_shortened_and_keeps_its_length() -> None:
    places, pauses = places_by_time([share(1, 0, 1_000), share(2, 100_000, 101_000)])
    (pause,) = pauses
    assert pause.length == timedelta(seconds=99_000)
    assert pause.share.first == 2
    assert pause.place.end - pause.place.start == pytest.approx(40 / 2_040)
    assert places[0].end == pause.place.start
    assert places[1].start == pause.place.end


def test_a_step_without_a_duration_has_a_bar_inside_the_picture() -> None:
    places, _ = places_by_time([share(1, 0, 10), share(2, 10, 10)])
    assert places[1].end - places[1].start == pytest.approx(MIN_WIDTH)
    assert places[1].end <= 1


def test_a_clock_that_was_set_back_does_not_reverse_the_order() -> None:
    places, _ = places_by_time([share(1, 0, 10), share(2, 3, 5), share(3, 12, 20)])
    assert all(older.start <= newer.start for older, newer in pairwise(places))


def test_without_times_there_is_no_time_axis() -> None:
    unknown = StepSample.at(uuid4(), 2, 0, 0)
    assert places_by_time([share(1, 0, 1), StepShare(2, unknown, 0, 0, 0, None)]) == ([], [])
    assert places_by_time([share(1, 0, 0), share(2, 0, 0)]) == ([], [])
    assert places_by_time([]) == ([], [])


def test_by_step_all_bars_have_the_same_width() -> None:
    assert places_by_step([share(11, 0, 1), share(12, 5, 9)], 11, 4) == [(0, 0.25), (0.25, 0.5)]


def shown(ticks: list[Tick]) -> list[str]:
    return [tick.utc for tick in ticks]


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        (
            [(0, 25), (25, 40)],
            ["00:00:00", "00:00:05", "00:00:10", "00:00:15", "00:00:20", "00:00:25", "00:00:30"],
        ),
        (
            [(0, 3_600), (3_600, 14_400)],
            ["00:00", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00", "03:30"],
        ),
        ([(0, 40_000), (40_000, 90_000)], ["1 Jan, 00:00", "1 Jan, 09:00", "1 Jan, 15:00", "1 Jan, 21:00"]),
        ([(0, 3_600), (90_000, 93_600)], ["1 Jan, 00:00", "1 Jan, 00:40", "2 Jan, 01:00", "2 Jan, 01:30"]),
    ],
)
def test_round_times_stand_where_their_steps_are_drawn(
    shares: list[tuple[float, float]], texts: list[str]
) -> None:
    drawn = [share(number, *times) for number, times in enumerate(shares, start=1)]
    ticks = ticks_by_time(drawn)
    assert shown(ticks)[: len(texts)] == texts
    assert all(later.place - earlier.place >= 1 / 17 for earlier, later in pairwise(ticks))
    places, pauses = places_by_time(drawn)
    for tick in ticks:
        assert not any(pause.place.start < tick.place < pause.place.end for pause in pauses)
        inside = [
            each for each, place in zip(drawn, places, strict=True) if place.start <= tick.place <= place.end
        ]
        assert any(each.begin and each.begin <= tick.moment <= (each.end or tick.moment) for each in inside)


def test_without_times_there_are_no_ticks() -> None:
    assert ticks_by_time([share(1, 0, 0), share(2, 0, 0)]) == []
    assert ticks_by_time([]) == []


def test_a_session_in_the_last_hours_of_the_year_9999_has_ticks() -> None:
    last = (datetime.max.replace(tzinfo=UTC) - START) // timedelta(seconds=1)
    ticks = ticks_by_time([share(1, last - 7_200, last - 3_600), share(2, last - 3_600, last)])
    assert shown(ticks)[:2] == ["22:00", "22:20"]
