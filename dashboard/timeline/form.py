"""The choices of how the timeline is drawn, as they are in the address of a page."""

from dataclasses import dataclass, replace

from django.http import QueryDict

from historyapp.core.errors import Invalid

AXES = ("step", "time")
HEIGHTS = ("tokens", "duration", "cost")
COLOURS = ("tool", "outcome")
MIN_WINDOW = 20
"""The minimum number of steps that a zoomed timeline shows."""


@dataclass(frozen=True, slots=True)
class TimelineForm:
    """The choices; the defaults are left out of the address."""

    axis: str = "step"
    height: str = "tokens"
    colour: str = "tool"
    first: int = 0
    """The first step of the part that is shown, and the last one; 0: the whole run is shown."""
    last: int = 0
    kept_at: int = 0
    """The step that a reader has left outside of the part by dragging over the timeline; 0: none."""

    @property
    def query(self) -> str:
        """For an address that has a query already; empty for the defaults."""
        parts = [f"&axis={self.axis}"] if self.axis != AXES[0] else []
        parts += [f"&height={self.height}"] if self.height != HEIGHTS[0] else []
        parts += [f"&colour={self.colour}"] if self.colour != COLOURS[0] else []
        kept_at = f"-{self.kept_at}" if self.kept_at else ""
        parts += [f"&zoom={self.first}-{self.last}{kept_at}"] if self.last else []
        return "".join(parts)

    def window(self, step: int, steps: int) -> "TimelineForm":
        """The same choices with a part that exists and contains the step, unless the reader left it outside.
        Without a part nothing changes."""
        if not self.last:
            return self
        size = max(min(self.last, steps) - self.first + 1, min(MIN_WINDOW, steps))
        is_inside = self.first <= step < self.first + size
        kept_at = step if step == self.kept_at and not is_inside else 0
        first = self.first if is_inside or kept_at else step - size // 2
        first = max(1, min(first, steps - size + 1))
        part = replace(self, first=first, last=first + size - 1, kept_at=kept_at)
        return part if size < steps else self.whole()

    def chosen(self, axis: str = "", height: str = "", colour: str = "") -> "TimelineForm":
        """A copy with the given choices replaced."""
        return replace(
            self, axis=axis or self.axis, height=height or self.height, colour=colour or self.colour
        )

    def whole(self) -> "TimelineForm":
        return replace(self, first=0, last=0, kept_at=0)

    def zoomed(self, step: int, steps: int, factor: float) -> "TimelineForm":
        """The form with a part around a step that is ``factor`` times as long as the shown part."""
        shown = self.last - self.first + 1 if self.last else steps
        size = max(MIN_WINDOW, round(shown * factor))
        if size >= steps:
            return self.whole()
        first = max(1, min(step - size // 2, steps - size + 1))
        return replace(self, first=first, last=first + size - 1, kept_at=0)


WHOLE_RUN = TimelineForm()


def read_timeline_form(query: QueryDict) -> TimelineForm:
    """The choices in an address.

    Raises:
        Invalid: for an unknown choice, and for a zoom that is not two step numbers in order.
    """
    choices = {"axis": AXES, "height": HEIGHTS, "colour": COLOURS}
    chosen = {name: query.get(name) or values[0] for name, values in choices.items()}
    for name, values in choices.items():
        if chosen[name] not in values:
            raise Invalid(f"{name} must be one of {', '.join(values)}.")
    form = WHOLE_RUN.chosen(**chosen)
    zoom = query.get("zoom", "")
    if not zoom:
        return form
    numbers = zoom.split("-", 3)
    if len(numbers) not in (2, 3) or not all(_is_number(number) for number in numbers):
        raise Invalid(
            "zoom must be two step numbers, such as 101-400. A third one is the step that may lie outside."
        )
    first, last, kept_at = (*map(int, numbers), 0)[:3]
    if not 1 <= first <= last:
        raise Invalid("zoom must begin at step 1 or later and must not end before it begins.")
    return replace(form, first=first, last=last, kept_at=kept_at)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
