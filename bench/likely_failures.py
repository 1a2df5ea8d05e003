"""How often the rules for likely failures are right, on results that were labelled by hand.

    python -m bench.likely_failures FOLDER [--labels FILE] [--show fitted]

Labels are in bench/outcomes. A label counts for the text with its digest alone; a file that has changed is
named. Of ``new_labels.jsonl``, the projects are divided: rules were improved on the results of one half of
them, and then measured once on the other. The two older files of labels were divided by file.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import chain
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from bench.outcomes.new_sample import place_of
from bench.outcomes.other_formats import results_in_other_formats
from bench.outcomes.results import Recorded, results_in
from historyapp.core.failures import Finding, likely_failure

LABELS = Path(__file__).parent / "outcomes" / "new_labels.jsonl"
_Z = 1.96


class Judged(NamedTuple):
    """A labelled result, and the finding of the rules."""

    recorded: Recorded
    failed: bool
    reason: str
    finding: Finding | None
    weight: float | None
    """The number of results that it represents; None if the sample was not drawn with known shares."""

    @property
    def is_set_aside(self) -> bool:
        """Whether it is in the half that was set aside while the rules were written."""
        file = self.recorded.file
        unit = file if self.weight is None else project_of(file)
        return sha256(unit.encode()).digest()[0] % 2 == 1


class Share(NamedTuple):
    part: int
    whole: int

    def __str__(self) -> str:
        if not self.whole:
            return "none"
        low, high = self.interval
        return f"{self.part} of {self.whole}: {self.part / self.whole:.1%} ({low:.0%} to {high:.0%})"

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of 95 %."""
        n, share = self.whole, self.part / self.whole
        middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)


def project_of(file: str) -> str:
    """The project that a transcript is about, as the names of the corpus say it."""
    if file.count("/") >= 2:
        return file.split("/")[1]
    return file.rpartition("/")[2].partition("__")[0].partition(".")[0]


def judged(folder: Path, labels: Path = LABELS) -> list[Judged]:
    """The labelled results of a folder.

    Raises:
        SystemExit: when a label's result is not there, or its text is another one.
    """
    wanted = {_place(label): label for label in map(json.loads, labels.read_text().splitlines())}
    found = {}
    for one in chain(results_in(folder), results_in_other_formats(folder)):
        label = wanted.get(place_of(one))
        if label and label["sha256"] == one.digest:
            finding = likely_failure(one.result, one.check)
            weight = label.get("weight")
            found[_place(label)] = Judged(one, label["failed"], label["reason"], finding, weight)
    missing = wanted.keys() - found.keys()
    if missing:
        raise SystemExit(f"{len(missing)} labelled results are not in {folder}: {sorted(missing)[:3]} …")
    return list(found.values())


def precision(some: Iterable[Judged]) -> Share:
    """Of the results that rules call likely failures, those that failed."""
    flagged = [one for one in some if one.finding]
    return Share(sum(one.failed for one in flagged), len(flagged))


def recall(some: Iterable[Judged]) -> Share:
    """Of the results that failed, those that rules find."""
    failed = [one for one in some if one.failed]
    return Share(sum(one.finding is not None for one in failed), len(failed))


def weighted(some: Sequence[Judged]) -> str:
    """Precision and recall in the population that the sample was drawn from, without an interval."""
    both = _weight(one for one in some if one.finding and one.failed)
    flagged = _weight(one for one in some if one.finding)
    failed = _weight(one for one in some if one.failed)
    return f"{both / flagged:.1%}, {both / failed:.1%}" if flagged and failed else "unknown"


def _weight(some: Iterable[Judged]) -> float:
    return sum(one.weight or 0 for one in some)


def _place(label: dict[str, Any]) -> tuple[str, int, int, int]:
    return label["file"], label["session"], label["position"], label["index"]


def _show(some: Iterable[Judged]) -> None:
    for one in some:
        if one.failed != bool(one.finding):
            rule, line = one.finding or ("missed", "")
            place = f"{one.recorded.file} {one.recorded.position}"
            print(f"{place}: {rule}: {line[:150]} [{one.reason}]")


def _print(groups: dict[str, list[Judged]]) -> None:
    print("| results of | results | failed | precision | recall | weighted |\n|---|---|---|---|---|---|")
    for name, some in groups.items():
        failed = sum(one.failed for one in some)
        print(f"| {name} | {len(some)} | {failed} | {precision(some)} | {recall(some)} | {weighted(some)} |")


def _groups(some: Iterable[Judged], name_of: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for one in some:
        groups.setdefault(name_of(one), []).append(one)
    return dict(sorted(groups.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--half", choices=("fitted", "set aside", "both"), default="both")
    parser.add_argument("--show", action="store_true", help="name the results that rules get wrong")
    given = parser.parse_args()
    found = judged(given.folder, given.labels)
    halves = _groups(found, lambda one: "set aside" if one.is_set_aside else "fitted")
    chosen = {name: some for name, some in halves.items() if given.half in (name, "both")}
    _print(chosen)
    for name, some in chosen.items():
        print(f"\n{name}, by format:\n")
        _print(_groups(some, lambda one: one.recorded.format))
        if given.show:
            _show(some)


if __name__ == "__main__":
    main()
