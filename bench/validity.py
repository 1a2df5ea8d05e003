"""Renders sessions of the corpus with every policy and format at random budgets, and validates each request.

    python -m bench.validity [FOLDER] [--cases 200000] [--seed 1]

Each case takes a session of the corpus, unchanged or damaged (entries dropped, doubled, swapped at random),
as of one of its positions, and a random budget. A request must satisfy the provider's rules, cost what its
manifest says, and not exceed its budget. Refusals of too small budgets are counted separately.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from historyapp.core.budget import RequestMeter
from historyapp.core.entries import Entry
from historyapp.core.errors import Invalid, UnreadableTranscript
from historyapp.core.formats import FORMATS
from historyapp.core.importers import detect
from historyapp.core.importers.base import Source
from historyapp.core.policies import POLICIES
from historyapp.core.policies.base import RequestExtras
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from tests.core.entries import session_of
from tests.core.formats.refusals import Refused
from tests.core.formats.validators import validate
from tests.core.policies.past import MemoryPast, Summary
from tests.shared import SHARED

TOOLS = ({"name": "ls", "description": "Lists a folder.", "input_schema": {"type": "object"}},)
MAX_LENGTH = 150
"""The maximum number of entries of a session. Of a longer session, a random part is used."""
count = lru_cache(1 << 17)(count_tokens)


@cache
def session_in(path: Path) -> list[Entry]:
    """The entries of a file without rewinds; none if it cannot be imported."""
    with path.open("rb") as stream:
        source = Source(path.name, stream, str(path.parent))
        try:
            return session_of(detect(source).read(source))
        except UnreadableTranscript:
            return []


def sessions(folder: Path, chance: random.Random) -> Iterator[list[Entry]]:
    """The entries of random files that can be imported."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    while True:
        if entries := session_in(chance.choice(paths)):
            yield entries


def damaged(entries: list[Entry], chance: random.Random) -> list[Entry]:
    """A part of a session with entries dropped, doubled and swapped."""
    start = chance.randrange(max(1, len(entries) - MAX_LENGTH))
    kept = [e for e in entries[start : start + MAX_LENGTH] if chance.random() > 0.1]
    kept += chance.sample(kept, len(kept) // 10)
    kept.sort(key=lambda entry: entry.position + chance.uniform(-2, 2))
    return [entry._replace(position=position) for position, entry in enumerate(kept, start=1)]


def past(entries: list[Entry], chance: random.Random) -> MemoryPast:
    """The session as of a random position, with summaries of some ranges of steps."""
    as_of = chance.randint(0, len(entries))
    episodes = MemoryPast(entries, as_of=as_of).episodes(1, as_of)
    summaries = []
    for first in range(0, len(episodes) - 3, 4):
        span = episodes[first : first + 4]
        if chance.random() < 0.5:
            covered = span[0].first_position, span[-1].last_position, span[0].number, span[-1].number
            summaries.append(Summary(str(first), *covered, f"Looked at {first} files; all tests pass."))
    return MemoryPast(entries, summaries, as_of)


def budgets(chance: random.Random) -> Iterator[int | None]:
    """Random budgets, small ones more often, and sometimes no limit."""
    while True:
        yield None if chance.random() < 0.02 else int(2 ** chance.uniform(0, 14.5)) - 1


def play(folder: Path, cases: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    corpus, budget = sessions(folder, chance), budgets(chance)
    tally: Counter[str] = Counter()
    while tally["rendered"] < cases:
        entries = next(corpus)
        tally["sessions"] += 1
        start = chance.randrange(max(1, len(entries) - MAX_LENGTH))
        whole = [e._replace(position=i) for i, e in enumerate(entries[start : start + MAX_LENGTH], start=1)]
        history = past(damaged(entries, chance) if chance.random() < 0.5 else whole, chance)
        extras = RequestExtras(
            TOOLS if chance.random() < 0.5 else (), "The screen." if chance.random() < 0.3 else ""
        )
        for policy in POLICIES:
            for format in FORMATS:
                tally.update(case(history, policy, format, next(budget), extras))
    return tally


def case(
    history: MemoryPast, policy: str, format: str, budget: int | None, extras: RequestExtras
) -> list[str]:
    """The outcomes of one case."""
    meter = RequestMeter(format, count)
    try:
        context = POLICIES[policy].choose(history, SessionSettings(max_tokens=budget), meter, extras)
    except Invalid as refusal:
        return ["refused" if refusal.fields["smallest"] > (budget or 0) else "WRONG REFUSALS"]
    outcomes = ["rendered", f"{policy}, {format}"]
    request = FORMATS[format].request(context, extras.tools)
    try:
        validate(format, request)
    except Refused as refused:
        outcomes += ["INVALID", f"INVALID {policy} {format}: {refused}"]
    total = meter.request_tokens(request)
    if total != context.manifest.tokens:
        outcomes += ["MISCOUNTED", f"MISCOUNTED {policy} {format}: {total} is not {context.manifest.tokens}"]
    if format == "plain" and count_tokens(request["text"]) > total:
        outcomes.append("MORE THAN COUNTED")
    if budget is not None and total > budget:
        outcomes.append("OVER BUDGET")
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED / "corpus")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    tally = play(options.folder, options.cases, options.seed)
    for name in ("INVALID", "OVER BUDGET", "MISCOUNTED", "MORE THAN COUNTED", "WRONG REFUSALS"):
        tally.setdefault(name, 0)
    for name, number in tally.items():
        print(f"{number:9,}  {name}")
    print(f"{time.monotonic() - started:9.0f}  seconds")


if __name__ == "__main__":
    main()
