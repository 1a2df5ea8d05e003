"""How often the rules for likely failures are right, on results that were labelled by hand.

    python -m bench.likely_failures FOLDER [--show]

Labels are in bench/outcomes. A label counts for the text with its digest alone; a file that has changed is
named. Rules were fitted on the results of one half of the files; the other half was set aside.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from bench.outcomes.results import Recorded, results_in
from historyapp.core.failures import Finding, likely_failure

LABELS = Path(__file__).parent / "outcomes" / "labels.jsonl"
_Z = 1.96


class Judged(NamedTuple):
    """A labelled result, and what the rules say of it."""

    recorded: Recorded
    failed: bool
    reason: str
    finding: Finding | None

    @property
    def held_out(self) -> bool:
        """Whether its file is in the half that was set aside while the rules were written."""
        return sha256(self.recorded.file.encode()).digest()[0] % 2 == 1


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


def judged(folder: Path, labels: Path = LABELS) -> list[Judged]:
    """The labelled results of a folder.

    Raises:
        SystemExit: when a label's result is not there, or its text is another one.
    """
    wanted = {_place(label): label for label in map(json.loads, labels.read_text().splitlines())}
    found = {}
    for one in results_in(folder):
        label = wanted.get((one.file, one.session, one.position, one.index))
        if label and label["sha256"] == one.digest:
            finding = likely_failure(one.result, one.check)
            found[_place(label)] = Judged(one, label["failed"], label["reason"], finding)
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


def _place(label: dict[str, Any]) -> tuple[str, int, int, int]:
    return label["file"], label["session"], label["position"], label["index"]


def _show(some: Sequence[Judged]) -> None:
    for one in some:
        if one.failed != bool(one.finding):
            rule, line = one.finding or ("missed", "")
            half = "set aside" if one.held_out else "fitted on"
            place = f"{one.recorded.file} {one.recorded.position}"
            print(f"{half}: {place}: {rule}: {line[:150]} [{one.reason}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument(
        "--show", action="store_true", help="name the results on which rules and labels differ"
    )
    given = parser.parse_args()
    found = judged(given.folder, given.labels)
    halves = {
        "fitted on": [one for one in found if not one.held_out],
        "set aside": [one for one in found if one.held_out],
        "all": found,
    }
    print("| files | results | failed | precision | recall |\n|---|---|---|---|---|")
    for name, some in halves.items():
        failed = sum(one.failed for one in some)
        print(f"| {name} | {len(some)} | {failed} | {precision(some)} | {recall(some)} |")
    if given.show:
        _show(found)


if __name__ == "__main__":
    main()
