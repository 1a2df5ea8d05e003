"""How many of the identifiers that the next action needs a policy's context contains, and its price.

No model is called. Run it with a folder of transcripts in any format that can be imported:
``python -m bench.context_quality FOLDER``. docs/context-quality.md says what the figures mean.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.quality.baselines import BASELINES
from bench.quality.corpus import Recorded, load
from bench.quality.measure import Serve, Tally, play
from bench.quality.prices import ANTHROPIC, OPENAI
from bench.quality.served import budgeted
from bench.quality.targets import FIRST_STEP, Target, targets
from historyapp.core.prices import load_prices

BUDGETS = (1024, 2048, 4096, 8192)
POLICIES: dict[str, Serve] = {**BASELINES, "budgeted": budgeted}
Case = tuple[Recorded, dict[int, list[Target]]]


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    sessions = [s for s in load(options.folder, options.cache) if len(s.episodes) >= FIRST_STEP]
    cases: list[Case] = [(session, targets(session)) for session in sessions]
    print(f"Prices as of {load_prices().as_of}: {OPENAI} and {ANTHROPIC}, dollars for 1,000 requests.")
    _table("All files", cases, options.budgets)
    _table("Files set aside while the policy was developed", _half(cases, held_out=True), options.budgets)
    if options.formats:
        for name in dict.fromkeys(session.format for session in sessions):
            _table(name, [case for case in cases if case[0].format == name], options.budgets)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="transcripts, including subfolders")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--cache", type=Path, help="a file that stores parsed transcripts")
    parser.add_argument("--formats", action="store_true", help="also a table for each transcript format")
    return parser.parse_args(arguments)


def _half(cases: Iterable[Case], *, held_out: bool) -> list[Case]:
    return [case for case in cases if case[0].held_out == held_out]


def _table(title: str, cases: list[Case], budgets: Iterable[int]) -> None:
    wanted = sum(len(some) for _, needs in cases for some in needs.values())
    print(f"\n## {title}: {len(cases)} sessions, {wanted:,} identifiers\n")
    if not wanted:
        return
    print("| budget | policy | recall | grounded | tokens | from cache | OpenAI | Anthropic |")
    print("|---|---|---|---|---|---|---|---|")
    for budget in budgets:
        for name, serve in POLICIES.items():
            print(_row(budget, name, _played(cases, serve, budget)))
            sys.stdout.flush()


def _played(cases: Iterable[Case], serve: Serve, budget: int) -> Tally:
    total = Tally()
    for recorded, needs in cases:
        total.add(play(recorded, serve, budget, needs))
    return total


def _row(budget: int, name: str, tally: Tally) -> str:
    requests = max(1, tally.requests)
    over = f" ({tally.over} over budget)" if tally.over else ""
    figures = (
        f"{tally.recall:.1f} %", f"{tally.grounding:.1f} %", f"{tally.tokens / requests:,.0f}",
        f"{tally.cache:.0f} %", f"{tally.openai / requests / 1000:.3f}",
        f"{tally.anthropic / requests / 1000:.2f}",
    )  # fmt: skip
    return f"| {budget:,} | {name}{over} | {' | '.join(figures)} |"


if __name__ == "__main__":
    main()
