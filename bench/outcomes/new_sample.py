"""Chooses further results for labelling: by a fixed hash, in strata, each with a known share.

A stratum is a format, shell or other tool, and the words in the text (see :mod:`bench.outcomes.sample`). Of
each stratum the results with the smallest hashes are taken, so a result's weight is the size of its stratum
over the number taken of it. Results that were labelled before are left out.

    python -m bench.outcomes.new_sample FOLDER > chosen.jsonl
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from bench.outcomes.other_formats import results_in_other_formats
from bench.outcomes.results import Recorded
from bench.outcomes.sample import candidates, level_of

SEED = "2026-11-23 second sample"
LABELLED = ("labels.jsonl", "later_labels.jsonl")
MAX: dict[tuple[bool, int], int] = {
    (True, 2): 70, (True, 1): 12, (True, 0): 8, (False, 2): 9, (False, 1): 4, (False, 0): 3,
}  # fmt: skip
"""Results of a stratum that are taken: by whether it is a shell's, and by the words in the text."""
Stratum = tuple[str, bool, int]
Place = tuple[str, int, int, int]


def place_of(one: Recorded) -> Place:
    return one.file, one.session, one.position, one.index


def population(folder: Path) -> dict[Stratum, list[Recorded]]:
    """All results that were reported as successes and not labelled before, by stratum, in order of hash."""
    known = _labelled()
    strata: dict[Stratum, dict[tuple[str, str], Recorded]] = defaultdict(dict)
    others = (one for one in results_in_other_formats(folder) if one.result.status == "success")
    for one in (*candidates(folder), *others):
        if place_of(one) not in known:
            stratum = one.format, one.kind == "shell", level_of(one.text)
            strata[stratum].setdefault((one.digest, one.target), one)
    return {key: sorted(some.values(), key=_hash) for key, some in sorted(strata.items())}


def choose(strata: dict[Stratum, list[Recorded]]) -> Iterable[tuple[Recorded, float]]:
    """The sample, each with the number of results of the population for which it stands."""
    for (_, is_shell, level), some in strata.items():
        taken = some[: MAX[is_shell, level]]
        yield from ((one, len(some) / len(taken)) for one in taken)


def _labelled() -> set[Place]:
    folder = Path(__file__).parent
    lines = (line for name in LABELLED for line in (folder / name).read_text().splitlines())
    labels = map(json.loads, lines)
    return {(label["file"], label["session"], label["position"], label["index"]) for label in labels}


def _hash(one: Recorded) -> str:
    return sha256(f"{SEED} {place_of(one)}".encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    for one, weight in choose(population(parser.parse_args().folder)):
        place = {"file": one.file, "session": one.session, "position": one.position, "index": one.index}
        print(json.dumps({**place, "sha256": one.digest, "weight": round(weight, 3)}))


if __name__ == "__main__":
    main()
