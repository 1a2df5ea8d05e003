"""The names that some steps returned and later steps used, and whether summaries keep them."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from historyapp.core.episodes import Episode
from historyapp.core.evaluation.name_search import first_places
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.results import returned_text

MAX_NAMES = 200
"""The maximum number of names that are looked for in each summary."""
MAX_CHARACTERS = 200_000
"""Characters of each result that are searched for names."""


class NeededName(NamedTuple):
    """A name that one of the steps returned and that a later step used in its arguments."""

    name: str
    step: int
    """The first step whose result contains it."""
    used_at: int
    """The first later step that used it."""


def needed_names(steps: Iterable[Episode], later: Iterable[Episode]) -> list[NeededName]:
    """The names that later steps took from the results of some steps, in the order of their use.

    This includes names that later steps could also have read elsewhere.
    """
    known: dict[str, int] = {}
    for step in steps:
        for result in step.results:
            for name in identifiers(returned_text(result)[:MAX_CHARACTERS]):
                known.setdefault(name, step.number)
    names: dict[str, NeededName] = {}
    for step in later:
        output = step.output
        calls = (output.use_tool,) if output.use_tool else output.tool_calls
        texts = [text[:MAX_CHARACTERS] for tool_call in calls for text in texts_in(tool_call.arguments)]
        for name in chain.from_iterable(map(identifiers, texts)):
            if name in known and name not in names and len(names) < MAX_NAMES:
                names[name] = NeededName(name, known[name], step.number)
    return list(names.values())


def kept_names(names: Sequence[NeededName], texts: Sequence[str]) -> list[NeededName]:
    """The names that one of the summaries contains as a whole word."""
    found = first_places([needed.name for needed in names], "\n".join(texts), limit=1)
    return [needed for needed in names if needed.name in found]
