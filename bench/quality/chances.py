"""How often the next action uses an identifier, by its age and use.

Run it with a folder of transcripts: ``python -m bench.quality.chances FOLDER``. The scores of
``historyapp/core/policies/scores.py`` follow these counts. Untouched projects are left out, and airline
chats, whose names are like no others.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from math import inf
from pathlib import Path

from bench.quality.corpus import Recorded, load
from bench.quality.served import past_of
from historyapp.core.evaluation.targets import FIRST_STEP, measured_steps, targets

AGES = (1, 2, 4, 8, 16, 48, inf)
USES = (1, 2, 4, 8, inf)
READ_TOGETHER = (4, 16, 64, 256, inf)
RECENT = 4
"""Steps whose arguments are compared with identifiers that were only read."""
SHARED = 2
"""An identifier is a neighbour of recent ones if it has this many words in common with them."""
_WORD = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}|[0-9]{3,}")
Group = tuple[str, float, float]
"""Whether it was used or only read, the upper ends of its age, and of its uses or those read with it. The
kinds ``neighbour`` and ``other`` are all that were only read, again."""


def main(folder: Path) -> None:
    seen: Counter[Group] = Counter()
    used: defaultdict[Group, float] = defaultdict(float)
    for recorded in load(folder):
        is_airline = "airline" in recorded.project
        if len(recorded.episodes) < FIRST_STEP or recorded.is_untouched or is_airline:
            continue
        needs = targets(recorded)
        for step in measured_steps(needs):
            names = {target.name for target in needs[step]}
            for name, group in _groups(recorded, step):
                seen[group] += 1
                used[group] += (name in names) / len(names)  # a step counts once, whatever it needs
    for kind, age, other in sorted(seen):
        count = seen[kind, age, other]
        chance = 100 * used[kind, age, other] / count
        print(f"{kind}, age up to {age}, up to {other}: {chance:.2f} % of {count:,}")


def _groups(recorded: Recorded, step: int) -> Iterator[tuple[str, Group]]:
    """Each identifier that a policy knows before a step, and its group."""
    uses: Counter[str] = Counter()
    newest: dict[str, int] = {}
    beside: dict[str, int] = {}
    outlines = past_of(recorded).before(step).outline(1, step - 1)
    for outline in outlines:
        excerpt = outline.excerpt
        for name in excerpt.names:
            uses[name] += 1
            newest[name] = outline.number
        for name in [*(name for line in excerpt.lines for name in line.names), *excerpt.others]:
            if name not in uses:
                newest[name] = outline.number
                beside[name] = min(beside.get(name, excerpt.result_names), excerpt.result_names)
    recent = {
        word for outline in outlines[-RECENT:] for name in outline.excerpt.names for word in _words(name)
    }
    for name, number in newest.items():
        age = _end(step - number, AGES)
        yield (
            name,
            (
                ("used", age, _end(uses[name], USES))
                if uses[name]
                else ("read", age, _end(beside[name], READ_TOGETHER))
            ),
        )
        if not uses[name]:
            kind = "neighbour" if len(recent.intersection(_words(name))) >= SHARED else "other"
            yield name, (kind, inf, _end(beside[name], READ_TOGETHER))


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name) if len(word) > 2)


def _end(value: float, ends: Sequence[float]) -> float:
    return next(end for end in ends if value <= end)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
