"""How long a replay shows a step: the recorded times, with long stretches shortened.

The time of a step begins where the step before it ended. It has up to three stretches: a pause until a
person's input, the model call, and the tools until their last result. Times are in milliseconds. Times on the
screen are for speed ×1.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from typing import Literal, NamedTuple

from historyapp.core.dates import known_time
from historyapp.core.json import dump_json
from historyapp.models.history import History

MAX_PAUSE = 30_000
"""The maximum duration of a stretch that is not shortened."""
SHORTENED = 2_000
"""The duration of a shortened stretch on the screen."""
MIN = 500
"""The minimum time that a step is shown, even if it took no time."""
SLOWEST_TEXT = 20
"""Characters a second. A shorter text does not fill a long model call."""
CHARACTERS_PER_TOKEN = 4
MAX_SINGLE, MAX_SAMPLES = 400, 200
"""The length of a replay is computed from all steps if there are at most 400, else from a sample of 200."""

Name = Literal["pause", "model", "tools"]


class Stretch(NamedTuple):
    """A part of the time of a step."""

    name: Name
    took: int
    """Duration in the run."""
    shown: int
    """Duration on the screen."""

    @classmethod
    def of(cls, name: Name, duration: timedelta) -> "Stretch":
        took = max(0, round(duration.total_seconds() * 1000))
        return cls(name, took, SHORTENED if took > MAX_PAUSE else took)


class Writing(NamedTuple):
    """What a model wrote in its call."""

    characters: int
    """Characters of the thought and the text."""
    tokens: int = 0
    """Tokens of the whole output, as reported; 0 if unknown."""
    hidden: int = 0
    """The part of these tokens that is reasoning which the log does not contain."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The time of one step."""

    begins_at: datetime
    """When it begins in the run."""
    pause: Stretch
    model: Stretch
    tools: Stretch
    text_from: int = 0
    """When the text begins to appear, counted from the beginning of the shown model call."""
    text_for: int = 0
    """How long the text takes to appear; 0 if the step has no text."""

    @property
    def shown(self) -> int:
        """How long the step is shown."""
        return max(MIN, self.pause.shown + self.model.shown + self.tools.shown)

    @property
    def attribute(self) -> str:
        """The JSON that ``js/replay.js`` reads."""
        return dump_json(
            {
                "begins": round(self.begins_at.timestamp() * 1000),
                "stretches": [list(stretch) for stretch in (self.pause, self.model, self.tools)],
                "shown": self.shown,
                "text": [self.text_from, self.text_for],
            }
        )


class StepTimes(NamedTuple):
    """When a step's output was complete, and when its last result came."""

    started_at: datetime | None
    finished_at: datetime | None

    @property
    def end(self) -> datetime | None:
        """The end of the step. It is not before the start, even if a clock was set back."""
        times = [time for time in (known_time(self.started_at), known_time(self.finished_at)) if time]
        return max(times, default=None)


_UNKNOWN = StepTimes(None, None)


def pace_of(
    times: StepTimes, before: StepTimes | None, newest_input_at: datetime | None, writing: Writing
) -> Pace | None:
    """The pace of a step; None if its time is unknown.

    Args:
        before: the step before it, or None.
        newest_input_at: the time of the newest input from a person before the step, or None.
    """
    started, ended = known_time(times.started_at), times.end
    if started is None or ended is None:
        return None
    input_at = known_time(newest_input_at)
    previous_end = min((before.end if before else None) or input_at or started, started)
    input_at = min(max(input_at or previous_end, previous_end), started)
    pause, model = Stretch.of("pause", input_at - previous_end), Stretch.of("model", started - input_at)
    tools = Stretch.of("tools", ended - started)
    text_from, text_for = _text_in(model, writing)
    return Pace(previous_end, pause, model, tools, text_from, text_for)


def _text_in(model: Stretch, writing: Writing) -> tuple[int, int]:
    """When the text begins to appear and how long that takes, by its share of the output.

    A model first reasons, then writes its text, then the arguments of its tool calls.
    """
    if not writing.characters or not model.shown:
        return 0, 0
    text = writing.characters / CHARACTERS_PER_TOKEN
    output = max(text + writing.hidden, writing.tokens)
    share = text / output if writing.tokens else 1.0
    slowest = 1000 * writing.characters / SLOWEST_TEXT
    shown = round(min(model.shown * share, slowest))
    arguments = model.shown * (output - text - writing.hidden) / output if writing.tokens else 0
    return max(0, round(model.shown - arguments) - shown), shown


class ReplayTime(NamedTuple):
    """The estimated duration of a replay by recorded times."""

    size: int
    """Steps between two times."""
    times: list[int]
    """The time of the last 0, ``size``, 2 × ``size`` … steps in milliseconds; empty if most steps have no
    time.
    """


def replay_time(history: History) -> ReplayTime:
    """The remaining time at some steps. Needs at most two queries at any length.

    The pause before an input and the model call after it count as one stretch. In a long session, one step of
    each share represents the share. No step is long, because long stretches are shortened.
    """
    steps = history.steps
    size = 1 if steps <= MAX_SINGLE else ceil(steps / MAX_SAMPLES)
    numbers = list(range(steps % size or size, steps + 1, size))
    rows = history.sample(numbers) if numbers else []
    if size > 1:
        rows += history.sample([number - 1 for number in numbers if number > 1])
    times = {row.number: StepTimes(row.started_at, row.finished_at) for row in rows}
    shown_times: list[int] = []
    for number in reversed(numbers):
        pace = pace_of(times.get(number, _UNKNOWN), times.get(number - 1), None, Writing(0))
        shown_times += [pace.shown] if pace else []
    is_known = len(shown_times) * 2 > len(numbers)
    return ReplayTime(
        size, list(accumulate((size * shown for shown in shown_times), initial=0)) if is_known else []
    )
