"""Where the names of a step came from, in the words of the page."""

from dataclasses import dataclass

from dashboard.location import Location
from historyapp.services.names.origins import NameOrigin, NamePlace

SHOWN = 20
"""Names that are not folded."""
_BETWEEN = ("input", "instruction", "notebook", "summary")
"""Kinds of entries between two steps: the later step shows them."""
_ROLES = {
    "input": "an input",
    "instruction": "the instruction",
    "notebook": "the notebook",
    "summary": "a summary",
    "result": "a result",
    "thought": "a thought",
    "text": "a text",
    "action": "an action",
}


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A place where a name appears."""

    place: NamePlace
    step: int
    """The step that shows it."""
    url: str

    @property
    def words(self) -> str:
        """The kind of text that contains the name there."""
        return _ROLES.get(self.place.role or "", "a long text")


@dataclass(frozen=True, slots=True)
class NameView:
    """A name in a step's action."""

    origin: NameOrigin
    first: PlaceView | None
    first_given: PlaceView | None

    @property
    def state(self) -> str:
        """How the name is marked: nowhere, gone, unknown or seen."""
        if self.origin.origin in ("nowhere", "unknown"):
            return self.origin.origin
        return "gone" if self.origin.in_view is False else "seen"


def place_view(location: Location, place: NamePlace | None) -> PlaceView | None:
    """A place with the address of the step that shows it."""
    if place is None:
        return None
    step = place.step + (place.role in _BETWEEN)
    step = max(1, min(step, location.steps))
    return PlaceView(place, step, location.address_of(step))
