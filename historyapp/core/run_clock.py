"""The idle time of a run, counted with each entry: the part of its length that no model, tool or person took.

:mod:`historyapp.core.overview.times` splits the other part. Both leave out the time before the first input or
step, the time after the last one, and the time until the run was continued after a rewind.
"""

from typing import Any, NamedTuple

from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import COMPACTION, Entry, ModelInput, ModelOutput, ToolResults
from historyapp.core.person_inputs import begins_turn


class Clock(NamedTuple):
    """What the idle time after the next entry depends on. Times are in milliseconds."""

    newest_at: int = 0
    """The latest time of an entry, since 1970. 0 before the first entry, in forks before their own first one:
    the time before it belongs to no run."""
    since_work: int = 0
    """The idle time since the newest entry of the conversation. The next one ends it, and it is not idle."""
    is_waiting: bool = False
    """Whether no entry of the conversation has followed the beginning, the fork or the rewind."""

    def dump(self) -> dict[str, Any]:
        """As stored: zeros are left out."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value}

    def after(self, entry: Entry, idle: int, steps: int) -> tuple["Clock", int]:
        """The clock and the idle time after one more entry.

        Args:
            idle: the idle time before it.
            steps: the number of steps, with the entry's own.
        """
        moment = milliseconds_of(entry.created_at)
        passed = moment - self.newest_at if 0 < self.newest_at < moment else 0
        newest_at = moment if moment > self.newest_at else self.newest_at
        if not _is_work(entry):
            is_waiting = self.is_waiting or not self.newest_at
            return Clock(newest_at, self.since_work + passed, is_waiting), idle + passed
        # Nobody knows what took the time before results without a recorded step.
        if self.is_waiting or (not steps and isinstance(entry.body, ToolResults)):
            return Clock(newest_at), idle + passed
        return Clock(newest_at), max(0, idle - self.since_work)


def _is_work(entry: Entry) -> bool:
    """Whether an entry belongs to the conversation, so that the time before it was spent on the run."""
    body = entry.body
    if isinstance(body, ModelInput):
        return body.channel == COMPACTION or begins_turn(body.channel, body.content)
    return isinstance(body, (ModelOutput, ToolResults))
