"""The share of the identifiers of the next action that a policy's context contains, and its price.

No model is called. Run it with a folder of transcripts in any format that can be imported:
``python -m bench.context_quality FOLDER``. docs/context-quality.md explains the figures.

A third of the projects, chosen by a hash of their names, are left out unless ``--untouched`` asks for them
alone: look at these once a policy is finished, and never to choose between two.
"""

import argparse
from collections.abc import Iterable
from multiprocessing import get_context
from pathlib import Path

from bench.quality.baselines import BASELINES, whole
from bench.quality.corpus import Recorded, joined, load
from bench.quality.distorted import DISTORTIONS
from bench.quality.measure import Serve, Tally, play
from bench.quality.prices import ANTHROPIC, OPENAI
from bench.quality.served import budgeted, past_of
from historyapp.core.evaluation.intervals import Interval, SessionTotal, difference, mean, mean_interval
from historyapp.core.evaluation.targets import FIRST_STEP, NeededIdentifier, targets
from historyapp.core.prices import load_prices

BUDGETS = (1024, 2048, 4096, 8192)
OURS = "budgeted"
WHOLE = "full history"
"""It has no budget."""
POLICIES: dict[str, Serve] = {**BASELINES, WHOLE: whole, OURS: budgeted}
Case = tuple[Recorded, dict[int, list[NeededIdentifier]]]
Results = dict[tuple[int, str], list[Tally]]
"""The tallies of all sessions by budget and policy."""


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    sessions = [s for s in load(options.folder, options.cache) if len(s.episodes) >= FIRST_STEP]
    sessions = [s for s in sessions if s.is_untouched == options.untouched]
    if options.joined:
        sessions = joined(sessions)
    if options.distorted:
        sessions = DISTORTIONS[options.distorted](sessions)
    cases = [(session, needs) for session in sessions if (needs := _needs(session, options.joined))]
    results = _results(cases, options.budgets)
    print(f"Prices as of {load_prices().as_of}: {OPENAI} and {ANTHROPIC}, dollars for 1,000 requests.")
    _report("All", cases, results, range(len(cases)))
    for name in dict.fromkeys(session.format for session, _ in cases):
        _report(name, cases, results, [at for at, case in enumerate(cases) if case[0].format == name])


def _needs(session: Recorded, tokens: int) -> dict[int, list[NeededIdentifier]]:
    """The targets of each step whose history has at least ``tokens`` tokens."""
    first = past_of(session).first_step_after(tokens)
    return {step: needed for step, needed in targets(session).items() if step >= first}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="transcripts, including subfolders")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--cache", type=Path, help="a file that stores parsed transcripts")
    parser.add_argument(
        "--joined",
        type=int,
        default=0,
        metavar="TOKENS",
        help="join the sessions of each project, and measure steps with at least these tokens before them",
    )
    parser.add_argument("--distorted", choices=DISTORTIONS, help="make the sessions awkward in one way")
    parser.add_argument("--untouched", action="store_true", help="only the projects that nobody looked at")
    return parser.parse_args(arguments)


_cases: list[Case] = []


def _results(cases: list[Case], budgets: Iterable[int]) -> Results:
    """Measures in two forked processes, which share the transcripts in memory."""
    _cases[:] = cases
    keys = [(budget, name) for budget in budgets for name in POLICIES]
    jobs = [(at, budget, name) for at in range(len(cases)) for budget, name in keys]
    with get_context("fork").Pool(2) as pool:
        tallies = iter(pool.starmap(_play, jobs, chunksize=len(keys)))
    results: Results = {key: [] for key in keys}
    for _, budget, name in jobs:
        results[budget, name].append(next(tallies))
    return results


def _play(at: int, budget: int, name: str) -> Tally:
    recorded, needs = _cases[at]
    return play(recorded, POLICIES[name], budget, needs)


def _report(title: str, cases: list[Case], results: Results, rows: Iterable[int]) -> None:
    rows = list(rows)
    if not rows:
        return
    decisions = sum(len(next(iter(results.values()))[at].recall) for at in rows)
    projects = len({cases[at][0].project for at in rows})
    print(f"\n## {title}: {decisions} steps of {len(rows)} sessions in {projects} projects\n")
    print("| budget | policy | recall | grounded | tokens | from cache | OpenAI | Anthropic |")
    print("|---|---|---|---|---|---|---|---|")
    for (budget, name), tallies in results.items():
        print(_row(budget, name, [tallies[at] for at in rows]))
    print(f"\n{OURS} compared with each baseline, in points; bold where the 95 % interval excludes zero\n")
    print("| budget | baseline | recall | grounded |\n|---|---|---|---|")
    for (budget, name), tallies in results.items():
        if name != OURS:
            our_tallies = [results[budget, OURS][at] for at in rows]
            print(_differences(budget, name, our_tallies, [tallies[at] for at in rows]))


def _row(budget: int, name: str, tallies: list[Tally]) -> str:
    def shares(figure: str) -> list[SessionTotal]:
        return [tally.share(figure) for tally in tallies]

    over = sum(tally.over for tally in tallies)
    tokens, cached = mean(shares("tokens")), mean(shares("cached"))
    figures = (
        *(_percent(mean_interval(shares(figure))) for figure in ("recall", "grounded")),
        f"{tokens:,.0f}",
        f"{100 * cached / max(1.0, tokens):.0f} %",
        f"{mean(shares('openai')) / 1000:.3f}",
        f"{mean(shares('anthropic')) / 1000:.2f}",
    )
    return f"| {budget:,} | {name}{f' ({over} over budget)' if over else ''} | {' | '.join(figures)} |"


def _percent(interval: Interval) -> str:
    return f"{100 * interval.mean:.1f} % ({100 * interval.low:.0f}–{100 * interval.high:.0f})"


def _differences(budget: int, name: str, ours: list[Tally], baseline: list[Tally]) -> str:
    cells = []
    for figure in ("recall", "grounded"):
        interval = difference([t.share(figure) for t in ours], [t.share(figure) for t in baseline])
        text = f"{100 * interval.mean:+.1f} ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
        cells.append(f"**{text}**" if interval.excludes_zero else text)
    return f"| {budget:,} | {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
