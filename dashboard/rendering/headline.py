"""The heading of a step: what it tried, and where it failed."""

from dataclasses import dataclass

from historyapp.core.short_targets import short_target, with_short_path
from historyapp.core.text import preview

MAX_FOLDERS = 3
"""The maximum number of parts of a path in the heading of a step."""
MAX_HEADLINE = 90
"""The maximum number of characters of a step's action in its heading."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What a step tried, in one line: its first tool call."""

    kind: str
    target: str
    more: int
    """The number of its other tool calls."""
    badge: str
    is_bad: bool
    failed: tuple[int, ...]
    """The numbers of the failed calls among the shown ones, if the step has several."""
    has_failed: bool = False
    """Whether the step has an error or a likely failure."""
    first_failed: int | None = None
    """The number of the first of ``failed`` whose error is more than that a search found nothing, if there is
    one, otherwise of the first."""

    @property
    def short(self) -> str:
        """The target without the folder that a command enters, and with only the end of a long path. Of a
        failed step, the whole command: it may have been the ``cd`` that failed.
        """
        parts = self.target.replace("\\", "/").split("/")
        is_path = self.kind in ("read", "edit") and len(parts) > MAX_FOLDERS + 1
        if is_path:
            short = f"…/{'/'.join(parts[-MAX_FOLDERS:])}"
        else:
            short = with_short_path(self.target) if self.has_failed else short_target(self.target)
        return preview(short, MAX_HEADLINE)
