"""Chooses the results that are labelled by hand: a seeded random sample, in strata.

A stratum is a format, a group of kinds of tools, and the words in the text: of a failure, of its
neighbourhood, or neither. Most results with words of a failure are no failures: they show code, tests and
logs. Strata are drawn from in turns, so that rare formats and tools are in the sample; from results of a
shell with words of a failure three at a time, because most failures are among them. Of one file at most four
results are in the sample.

    python -m bench.outcomes.sample FOLDER > chosen.jsonl
"""

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from bench.outcomes.results import Recorded, results_in

SEED = 20261123
QUOTAS = {2: 120, 1: 40, 0: 40}
"""Results of the sample by level: with words of a failure, with words around failures, with neither."""
MAX_OF_A_FILE = 4
FAILURE = (
    "traceback (most recent", "no such file", "not found", "fatal:", "error:", "error[", "errors:",
    "failed", "failures", "fail ", "fail:", "exception:", "code: 1", "code: 2", "code 1", "code 2",
    "code 127", "code>1", "code>2", "denied", "timed out", "syntaxerror", "not recognized", "cannot open",
    "unable to", "invalid ", "refused", "does not exist", "not been applied", "no matches",
)  # fmt: skip
AROUND = (
    "error", "fail", "exception", "cannot", "can't", "undefined", "timeout", "abort", "panic", "unexpected",
    "missing", "warning", "usage:", "✗", "✘", "×",
)  # fmt: skip
_GROUPS = {"shell": "shell", "read": "reading", "search": "reading", "edit": "edit"}


def level_of(text: str) -> int:
    lower = text.lower()
    if any(word in lower for word in FAILURE):
        return 2
    return int(any(word in lower for word in AROUND))


def stratum_of(recorded: Recorded) -> tuple[str, str, int]:
    return recorded.format, _GROUPS.get(recorded.kind, "other"), level_of(recorded.text)


def candidates(folder: Path) -> list[Recorded]:
    """Results that were reported as successes, without exact repetitions of a call and its result."""
    found = {
        (one.digest, one.target): one
        for one in reversed(list(results_in(folder)))
        if one.result.status == "success"
    }
    return list(found.values())[::-1]


def choose(all_of_them: Iterable[Recorded]) -> list[Recorded]:
    """The sample, in the order in which it was drawn."""
    chance = random.Random(SEED)
    strata: dict[tuple[str, str, int], list[Recorded]] = defaultdict(list)
    for one in all_of_them:
        strata[stratum_of(one)].append(one)
    for some in strata.values():
        chance.shuffle(some)
    chosen: list[Recorded] = []
    of_file: Counter[str] = Counter()
    for level, wanted in QUOTAS.items():
        end = len(chosen) + wanted
        while len(chosen) < end:
            left = [key for key in sorted(strata) if key[2] == level and strata[key]]
            if not left:
                break
            for key in (one for one in left for _ in range(3 if one[1:] == ("shell", 2) else 1)):
                one = _next(strata[key], of_file)
                if one is not None and len(chosen) < end:
                    chosen.append(one)
    return chosen


def _next(stratum: list[Recorded], of_file: Counter[str]) -> Recorded | None:
    while stratum:
        one = stratum.pop()
        if of_file[one.file] < MAX_OF_A_FILE:
            of_file[one.file] += 1
            return one
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    for one in choose(candidates(parser.parse_args().folder)):
        place = {"file": one.file, "session": one.session, "position": one.position, "index": one.index}
        print(json.dumps({**place, "sha256": one.digest}))


if __name__ == "__main__":
    main()
