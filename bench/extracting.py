"""The speed of ``simple_extract``, and how many of the identifiers that later steps need it keeps.

No model is called, and spaCy has no statistical model. Run it with a folder of transcripts in any format that
can be imported: ``python -m bench.extracting FOLDER``. See docs/context-quality.md, "Extracts".
"""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from time import process_time

from bench.machinery import machine, report
from bench.quality.corpus import Recorded, load
from historyapp.core.entries import text_of
from historyapp.core.episodes import Episode
from historyapp.core.evaluation.targets import FIRST_STEP, NeededIdentifier, is_grounded, occurrences, targets
from historyapp.core.language import load_language
from historyapp.core.rendering import short_form
from historyapp.core.strategies.base import Material, Resources
from historyapp.core.strategies.simple_extract import SIMPLE_EXTRACT, ExtractOptions
from historyapp.core.text import clean
from historyapp.core.tokens import count_tokens

BUDGETS = (40, 60, 80, 100, 160)
"""Tokens for one step."""
_SPOTS = 200
_MAX_TOKEN = 128  # characters
_ROUNDS = 3
Write = Callable[[Episode, int], str]
Case = tuple[Recorded, dict[int, list[NeededIdentifier]]]


def extracted(episode: Episode, tokens: int) -> str:
    """The step's extract."""
    means = Resources(load_language("en_core_web_sm")[0], options=ExtractOptions(max_tokens=tokens))
    return SIMPLE_EXTRACT.write(Material((episode,)), means).text


def beginning(episode: Episode, tokens: int) -> str:
    """The longest beginning of the step, tool call and result, with at most this many tokens."""
    text = clean(short_form(episode))[: tokens * _MAX_TOKEN]
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= tokens else (low, middle - 1)
    return text[:low]


@dataclass(slots=True)
class Found:
    """How many identifiers texts contain."""

    wanted: int = 0
    found: int = 0
    grounded: int = 0

    @property
    def recall(self) -> float:
        """Per cent, like ``grounding``."""
        return 100 * self.found / max(1, self.wanted)

    @property
    def grounding(self) -> float:
        return 100 * self.grounded / max(1, self.wanted)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="transcripts, including subfolders")
    folder = parser.parse_args(arguments).folder
    sessions = [session for session in load(folder) if len(session.episodes) >= FIRST_STEP]
    print(f"# Measured on {machine()}")
    speed([episode for session in sessions for episode in session.episodes])
    cases: list[Case] = [(session, targets(session)) for session in sessions]
    _table("All files", cases)
    _table("Projects that nobody looked at", [case for case in cases if case[0].is_untouched])


def speed(episodes: list[Episode]) -> None:
    """Prints the steps per second of processor time, on one core."""
    taken = []
    for _ in range(_ROUNDS):
        started = process_time()
        for episode in episodes:
            extracted(episode, 100)
        taken.append(process_time() - started)
    size = sum(len(short_form(episode)) for episode in episodes) / len(episodes)
    rate = len(episodes) / min(taken)
    name = f"simple_extract over {len(episodes):,} steps of {size:,.0f} characters on average"
    report("Extracting", [(name, f"{rate:,.0f} steps a second", "2,000")])


def _table(title: str, cases: list[Case]) -> None:
    print(f"\n## {title}: {len(cases)} sessions\n")
    print("| tokens a step | text | recall | grounded | recall without inputs |")
    print("|---|---|---|---|---|")
    for budget in BUDGETS:
        for name, write in (("beginning", beginning), ("simple_extract", extracted)):
            whole, without_inputs = recall(cases, write, budget)
            figures = f"{whole.recall:.1f} % | {whole.grounding:.1f} % | {without_inputs.recall:.1f} %"
            print(f"| {budget} | {name} | {figures} |", flush=True)


def recall(cases: Iterable[Case], write: Write, budget: int) -> tuple[Found, Found]:
    """How many of the earlier identifiers that each step uses are in the texts of the previous steps.

    The first tally counts all identifiers, the second only those that appear in no input.
    """
    whole, without_inputs = Found(), Found()
    for recorded, needs in cases:
        texts = [write(episode, budget) + "\n" for episode in recorded.episodes] if needs else []
        ends = list(accumulate(map(len, texts)))
        all_of_it = "".join(texts)
        for step, wanted in needs.items():
            text = all_of_it[: ends[step - 2]]
            inputs = _inputs_before(recorded, recorded.episodes[step - 1].first_position)
            for target in wanted:
                tallies = (whole,) if occurrences(target.name, inputs) else (whole, without_inputs)
                _look(tallies, target, text)
    return whole, without_inputs


def _inputs_before(recorded: Recorded, before: int) -> str:
    inputs = (entry for entry in recorded.inputs if entry.position < before)
    return "\n".join(text_of(getattr(entry.body, "content", "")) for entry in inputs)


def _look(tallies: Iterable[Found], target: NeededIdentifier, text: str) -> None:
    spots = occurrences(target.name, text)[:_SPOTS]
    for tally in tallies:
        tally.wanted += 1
        tally.found += bool(spots)
        tally.grounded += bool(spots) and is_grounded(target, text, spots)


if __name__ == "__main__":
    main()
