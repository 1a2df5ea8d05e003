"""What the server answers about compression, typed. Money is in US dollars."""

from datetime import datetime
from typing import Any
from uuid import UUID

from historyapp.client.answers import Answer
from historyapp.core.text import Text


class RunItem(Answer):
    """A compression run as lists show it. Its figures grow while it is under way."""

    id: UUID
    strategy: str
    model: str
    """``provider:model``, ``local``, or empty where no model is asked."""
    options: dict[str, Any]
    again: bool
    trial: bool
    """Whether it belongs to a comparison: its summaries stand for nothing."""
    comparison: UUID | None
    automatic: bool
    """Whether the session's settings started it."""
    state: str
    """``queued``, ``running``, ``succeeded``, ``partly_failed``, ``failed`` or ``cancelled``."""
    note: str
    """What happened and what can be done; empty where nothing is to be said."""
    head: int
    from_step: int
    to_step: int
    """Less than ``from_step``: there was nothing to do."""
    total: int
    """Summaries that it is to make; 0 until it is planned."""
    done: int
    failed: int
    calls: int
    """Of the model."""
    tokens_in: int
    tokens_out: int
    money: float | str
    """``unknown`` where the model's price is."""
    prices_as_of: str | None = None
    """The date of the price list; null where no model is asked."""
    tokens_before: int
    tokens_after: int
    tokens_saved: int
    actor: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("queued", "running")


class ItemError(Answer):
    from_step: int
    to_step: int
    error: str
    """Why it failed, in one sentence."""


class CompressionRun(RunItem):
    """A compression run with what failed in it."""

    errors: list[ItemError]
    """The first 100."""


class StartedRun(RunItem):
    joined: bool
    """Whether it was under way already: one at a time works on a session."""


class Estimate(Answer):
    """What a run would do at most: steps that have their summary already are not counted out."""

    strategy: str
    model: str
    note: str
    """Why it is not the model that was to be expected."""
    from_step: int
    to_step: int
    steps: int
    summaries: int
    calls: int
    tokens_before: int
    tokens_in: int
    tokens_out: int
    money: float | str
    """``unknown`` where the model's price is."""
    prices_as_of: str = ""
    """The date of the price list."""


class Trial(Answer):
    """A summary that stands for nothing."""

    from_step: int
    to_step: int
    state: str
    """``waiting``, ``claimed``, ``done`` or ``failed``."""
    text: Text | None
    error: str
    tokens_before: int
    tokens_after: int


class ComparedRun(RunItem):
    items: list[Trial]


class Comparison(Answer):
    """Two strategies on the same steps."""

    id: UUID
    from_step: int
    to_step: int
    ended: bool
    """Whether both sides have."""
    sides: list[ComparedRun]
