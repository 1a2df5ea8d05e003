"""A writer process that takes long for some steps, for tests of its limits. It loads no spaCy.

It estimates tokens, because each summary that takes too long ends it, and another one starts.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from historyapp.child import limit_processor_time
from historyapp.core.strategies import STRATEGIES, writing
from historyapp.core.strategies.base import Material, Resources, SummaryDraft
from historyapp.services.compression import writer_process

SPIN = "spin.py"
"""A path in a step's call. Its summary is never written: the loop runs in C and looks for no signal."""

ENDLESS = "endless.py"
"""The same, without a limit of processor time."""
BUSY = "busy.py"
"""Writing its summary takes this many seconds of processor time."""
BUSY_SECONDS = 0.4


class _NoLanguage:
    def sentences(self, text: str) -> list[str]:
        return [text]

    def names(self, text: str) -> list[str]:
        return []


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "light" / "tokens"))
    writing.load_language = writer_process.load_language = lambda name: (_NoLanguage(), "")  # type: ignore
    writer_process.BASE_SECONDS = 0.2
    for name, strategy in STRATEGIES.items():
        STRATEGIES[name] = replace(strategy, write=_spinning(strategy.write))
    writer_process.main()


def _spinning(
    write: Callable[[Material, Resources], SummaryDraft],
) -> Callable[[Material, Resources], SummaryDraft]:
    def write_or_spin(material: Material, resources: Resources) -> SummaryDraft:
        called = str([episode.output for episode in material.episodes])
        if ENDLESS in called:
            limit_processor_time(0)
        if SPIN in called or ENDLESS in called:
            any(repeat(False))
        if BUSY in called:
            limit_processor_time(0)
            end = time.process_time() + BUSY_SECONDS
            while time.process_time() < end:
                pass
        return write(material, resources)

    return write_or_spin


if __name__ == "__main__":
    main()
