"""The bytes that `budgeted` chooses do not change: snapshots are rebuilt from the log and compared by hash.

If a test fails, the snapshots of earlier versions no longer match. If that is intended, store in each
snapshot which rule it was served with, as ``prefix_sha256`` does for reasoning, and rebuild earlier ones with
the earlier rule.
"""

import hashlib
import random
from dataclasses import replace
from functools import cache

import pytest

from bench.quality.corpus import Recorded
from bench.quality.served import past_of
from historyapp.core.budget import RequestMeter
from historyapp.core.json import dump_json
from historyapp.core.policies.base import NO_EXTRAS, RequestExtras
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.settings import SessionSettings
from tests.core.formats.contexts import messages_of
from tests.core.policies.test_budgeted import session
from tests.core.policies.test_sources import EXPLAINED, RICH, context, past

WORDS = (
    "the",
    "parser",
    "reads",
    "值",
    "修改",
    "error:",
    "→",
    "Größe",
    "привет",
    "failed",
    "in",
    "of",
    "—",
    "line",
)
STEPS = 150


def name(source: random.Random) -> str:
    number = int(source.random() ** 2 * 400)
    kinds = (
        f"src/part_{number}.py",
        f"load_value_{number}",
        f"https://a.b/{number}/x?y=z_{number}",
        f"{number:05}",
    )
    return kinds[number % len(kinds)]


def line(source: random.Random) -> str:
    count = int(source.random() * 9)
    words = [
        name(source) if source.random() < 0.3 else WORDS[int(source.random() * 14)] for _ in range(count)
    ]
    return " ".join(words)


@cache
def varied() -> Recorded:
    """A session with names, URLs and scripts of every kind, failures, and long and short steps and inputs."""
    source = random.Random(15)
    results = ["\n".join(line(source) for _ in range(int(source.random() ** 3 * 150))) for _ in range(STEPS)]
    inputs = {step: "\n".join(line(source) for _ in range(step)) for step in range(9, STEPS, 25)}
    return session(results, inputs, failed=tuple(range(4, STEPS, 7)))


@pytest.mark.parametrize(
    ("budget", "clipped", "scores", "excerpts", "now"),
    [
        (700, "5a3ee761ae8bbdfe", "c750f667c6203e2e", "e053dced74cd24a6", "935b31219dbe905c"),
        (2048, "ac2cc53923488c56", "aa02e0a244abe967", "8590887543f82c8e", "8590887543f82c8e"),
        (8192, "e6e597fee07fe179", "e6e597fee07fe179", "42dbcfab7719b3e7", "42dbcfab7719b3e7"),
        (65536, "3acd3ab78c573a74", "3acd3ab78c573a74", "6f0b6be9fe13f1bd", "6f0b6be9fe13f1bd"),
        (None, "a7460ee1193cf7a3", "a7460ee1193cf7a3", "a7460ee1193cf7a3", "a7460ee1193cf7a3"),
    ],
)
def test_contexts_are_the_same_bytes_as_in_earlier_versions(
    budget: int | None, clipped: str, scores: str, excerpts: str, now: str
) -> None:
    """``clipped``: until 2026-11-29, with a newest step that stayed clipped although room was left.

    Until 2026-11-30, in two versions: ``scores``, with other scores of lines and names, and fewer names;
    ``excerpts``, with notes from excerpts only, and in small budgets another share of lines and names.
    """
    before = RequestExtras(notes_as_earlier=True)
    earlier = replace(before, scores_as_earlier=True)
    versions = (replace(earlier, fills_newest=False), earlier, before, NO_EXTRAS)
    assert tuple([chosen_at(budget, extras) for extras in versions]) == (clipped, scores, excerpts, now)


@pytest.mark.parametrize(
    ("budget", "excerpts", "now"),
    [
        (1024, "df3c61c60eecc09f", "044a2ecc37bf191f"),
        (2048, "e7015af8740cb7d8", "8e4015e6a55d69a3"),
        (8192, "e4785614ad35b2b0", "bdffc5365c33a7b9"),
    ],
)
def test_notes_of_used_names_are_the_same_bytes(budget: int, excerpts: str, now: str) -> None:
    read = "\n".join([*RICH, EXPLAINED, *RICH])
    session = past(read, "\n".join(["Mend the parser.", *RICH, "See value_7 for module_36.py.", *RICH]))
    found = []
    for extras in (RequestExtras(notes_as_earlier=True), NO_EXTRAS):
        chosen = context(session, extras, budget)
        text = dump_json([messages_of(chosen), chosen.manifest.model_dump()])
        found.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    assert found == [excerpts, now]


def chosen_at(budget: int | None, extras: RequestExtras) -> str:
    chosen = hashlib.sha256()
    for step in (6, 40, 97, 120, STEPS + 1):
        past = past_of(varied()).before(step)
        context = BUDGETED.choose(past, SessionSettings(max_tokens=budget), RequestMeter(), extras)
        chosen.update(dump_json([messages_of(context), context.manifest.model_dump()]).encode())
    return chosen.hexdigest()[:16]
