"""A writer process that does not come back from some steps, for tests of its limit. It loads no spaCy.

It estimates tokens, because each summary that takes too long ends it, and another one starts.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from historyapp.core.strategies import STRATEGIES, writing
from historyapp.core.strategies.base import Material, Resources, SummaryDraft
from historyapp.services.compression import writers

SPIN = "spin.py"
"""A path in a step's call. Its summary is never written: the loop runs in C and looks for no signal."""


class _NoLanguage:
    def sentences(self, text: str) -> list[str]:
        return [text]

    def names(self, text: str) -> list[str]:
        return []


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "light" / "tokens"))
    writing.load_language = writers.load_language = lambda name: (_NoLanguage(), "")  # type: ignore
    writers.BASE_SECONDS = 0.4
    for name, strategy in STRATEGIES.items():
        STRATEGIES[name] = replace(strategy, write=_spinning(strategy.write))
    writers.main()


def _spinning(
    write: Callable[[Material, Resources], SummaryDraft],
) -> Callable[[Material, Resources], SummaryDraft]:
    def write_or_spin(material: Material, resources: Resources) -> SummaryDraft:
        if any(SPIN in str(episode.output) for episode in material.episodes):
            any(repeat(False))
        return write(material, resources)

    return write_or_spin


if __name__ == "__main__":
    main()
