"""How often the rules for likely failures are right, on results that were labelled by hand.

    python -m bench.likely_failures FOLDER [--labels FILE] [--show fitted]

Labels are in bench/outcomes. A label applies only to the text with its digest; files that have changed are
named. ``new_labels.jsonl`` is divided by project: the rules were improved on the results of one half, and
then measured once on the other half. The two older files of labels were divided by file.
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
from historyapp.core.failures import LikelyFailure, likely_failure

LABELS = Path(__file__).parent / "outcomes" / "new_labels.jsonl"
_Z = 1.96


class Judged(NamedTuple):
    """A labelled result, and the finding of the rules."""

    recorded: Recorded
    failed: bool
    reason: str
    finding: LikelyFailure | None
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
    """The project of a transcript, according to the file names of the corpus."""
    if file.count("/") >= 2:
        return file.split("/")[1]
    return file.rpartition("/")[2].partition("__")[0].partition(".")[0]


def judged(folder: Path, labels: Path = LABELS) -> list[Judged]:
    """The labelled results of a folder.

    Raises:
        SystemExit: when a labelled result is missing, or its text has changed.
    """
    labels_by_place = {_place(label): label for label in map(json.loads, labels.read_text().splitlines())}
    judged_results = {}
    for recorded in chain(results_in(folder), results_in_other_formats(folder)):
        label = labels_by_place.get(place_of(recorded))
        if label and label["sha256"] == recorded.digest:
            finding = likely_failure(recorded.result, recorded.check)
            weight = label.get("weight")
            judged_results[_place(label)] = Judged(
                recorded, label["failed"], label["reason"], finding, weight
            )
    missing = labels_by_place.keys() - judged_results.keys()
    if missing:
        raise SystemExit(f"{len(missing)} labelled results are not in {folder}: {sorted(missing)[:3]} …")
    return list(judged_results.values())


def precision(results: Iterable[Judged]) -> Share:
    """Of the results that rules call likely failures, those that failed."""
    flagged = [result for result in results if result.finding]
    return Share(sum(result.failed for result in flagged), len(flagged))


def recall(results: Iterable[Judged]) -> Share:
    """Of the results that failed, those that rules find."""
    failed = [result for result in results if result.failed]
    return Share(sum(result.finding is not None for result in failed), len(failed))


def weighted(results: Sequence[Judged]) -> str:
    """Precision and recall in the population that the sample was drawn from, without an interval."""
    both = _weight(result for result in results if result.finding and result.failed)
    flagged = _weight(result for result in results if result.finding)
    failed = _weight(result for result in results if result.failed)
    return f"{both / flagged:.1%}, {both / failed:.1%}" if flagged and failed else "unknown"


def _weight(results: Iterable[Judged]) -> float:
    return sum(result.weight or 0 for result in results)


def _place(label: dict[str, Any]) -> tuple[str, int, int, int]:
    return label["file"], label["session"], label["position"], label["index"]


def _show(results: Iterable[Judged]) -> None:
    for result in results:
        if result.failed != bool(result.finding):
            rule, line = result.finding or ("missed", "")
            place = f"{result.recorded.file} {result.recorded.position}"
            print(f"{place}: {rule}: {line[:150]} [{result.reason}]")


def _print(groups: dict[str, list[Judged]]) -> None:
    print("| results of | results | failed | precision | recall | weighted |\n|---|---|---|---|---|---|")
    for name, group in groups.items():
        failed = sum(result.failed for result in group)
        print(
            f"| {name} | {len(group)} | {failed} | {precision(group)} | {recall(group)} | {weighted(group)} |"
        )


def _groups(results: Iterable[Judged], name_of: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for result in results:
        groups.setdefault(name_of(result), []).append(result)
    return dict(sorted(groups.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--half", choices=("fitted", "set aside", "both"), default="both")
    parser.add_argument("--show", action="store_true", help="name the results that rules get wrong")
    options = parser.parse_args()
    results_judged = judged(options.folder, options.labels)
    halves = _groups(results_judged, lambda result: "set aside" if result.is_set_aside else "fitted")
    chosen = {name: results for name, results in halves.items() if options.half in (name, "both")}
    _print(chosen)
    for name, results in chosen.items():
        print(f"\n{name}, by format:\n")
        _print(_groups(results, lambda result: result.recorded.format))
        if options.show:
            _show(results)


if __name__ == "__main__":
    main()
