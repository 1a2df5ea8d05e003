"""How often the origins of names are right, on labels that were made by hand before the rules.

    python -m bench.name_origins [FOLDER] [--half "held back"]

Each label names a file, the position of an action in it and the hash of a name, and says where the name first
appeared: in what the agent was given, in its own earlier words, or nowhere. Precision is the share of names
with a displayed place for which it is the labelled place. Recall is the share of names that appeared
somewhere for which the labelled place is displayed.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, get_args

from bench.likely_failures import Share
from historyapp.core.amounts import amounts_in
from historyapp.core.entries import Entry, ModelOutput
from historyapp.core.identifiers import identifiers, texts_in
from historyapp.core.importers import detect
from historyapp.core.importers.base import Append, Source
from historyapp.core.origins import NameKind, best_lookup, calls_of, lookups, mentions_of
from tests.core.entries import session
from tests.shared import SHARED

LABELS = Path(__file__).with_name("quality") / "origins.jsonl"
Places = dict[int, list[int]]


class Count(NamedTuple):
    """The counts of one kind of name."""

    names: int = 0
    appeared: int = 0
    placed: int = 0
    placed_right: int = 0
    from_nowhere: int = 0
    from_nowhere_right: int = 0

    def plus(self, *, appeared: bool, placed: bool, is_right: bool) -> "Count":
        """The counts with one more name.

        Args:
            placed: whether a place is displayed for the name.
        """
        return Count(
            *map(add, self, (1, appeared, placed, placed and is_right, not placed, not placed and is_right))
        )


def labels(half: str) -> list[dict[str, Any]]:
    """The labels of one half: ``rules``, for which the rules were written, or ``held back``."""
    rows = [json.loads(line) for line in LABELS.read_text().splitlines()]
    return [row for row in rows if row["half"] == half]


@lru_cache(8)
def read(path: Path) -> tuple[list[Entry], Places]:
    """The entries of a file, and the positions of each key, ascending."""
    with path.open("rb") as stream:
        source = Source(path.name, stream, str(path.parent))
        drafts = [each.draft for each in detect(source).read(source) if isinstance(each, Append)]
    entries = [
        entry._replace(metadata=draft.metadata)
        for entry, draft in zip(session(*(draft.body for draft in drafts)), drafts, strict=True)
    ]
    places: Places = defaultdict(list)
    for entry in entries:
        for key in {mention.key for mention in mentions_of(entry.body, entry.metadata).mentions}:
            places[key].append(entry.position)
    return entries, places


def origin(places: Places, name: str, position: int) -> int | None:
    """The position at which a name first appeared before an action; None if it did not."""
    keys = {key for way in lookups(name) for key in way.keys}
    firsts = {key: places[key][0] for key in keys if key in places and places[key][0] < position}
    way = best_lookup(name, firsts)
    return firsts[way.keys[0]] if way else None


def measure(folder: Path, half: str) -> dict[str, Count]:
    """The counts of each kind of name."""
    counts: dict[str, Count] = {kind: Count() for kind in get_args(NameKind)}
    for row in labels(half):
        entries, places = read(folder / row["file"])
        body = next(entry.body for entry in entries if entry.position == row["position"])
        assert isinstance(body, ModelOutput)
        tool_call = calls_of(body)[row["call"]]
        named = (name for text in texts_in(tool_call.arguments) for name in identifiers(text))
        name = next(name for name in named if sha256(name.encode()).hexdigest() == row["sha256"])
        place, appeared = origin(places, name, row["position"]), row["label"] != "nowhere"
        if place is None and name in amounts_in(tool_call):
            continue  # not displayed
        is_right = place in row["at"] if appeared else place is None
        counts[row["kind"]] = counts[row["kind"]].plus(
            appeared=appeared, placed=place is not None, is_right=is_right
        )
    return counts


def interval(right: int, of: int) -> str:
    """A share with its 95 % interval by Wilson's score."""
    if not of:
        return "–"
    low, high = Share(right, of).interval
    return f"{right} of {of}: {right / of:.0%} ({low:.0%} to {high:.0%})"


def table(counts: dict[str, Count]) -> list[str]:
    """The lines of a table in Markdown."""
    all_kinds = Count(*map(sum, zip(*counts.values(), strict=True)))
    lines = ['| kind | precision | recall | right about "from nowhere" |', "|---|---|---|---|"]
    for kind, count in [*counts.items(), ("**all**", all_kinds)]:
        shares: Sequence[tuple[int, int]] = (
            (count.placed_right, count.placed),
            (count.placed_right, count.appeared),
            (count.from_nowhere_right, count.from_nowhere),
        )
        lines.append(f"| {kind} | {' | '.join(interval(*share) for share in shares)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED / "corpus")
    parser.add_argument("--half", default="held back", choices=("rules", "held back"))
    options = parser.parse_args()
    print("\n".join(table(measure(options.folder, options.half))))


if __name__ == "__main__":
    main()
