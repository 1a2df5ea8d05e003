"""The newest step has the room that is left, in whatever form it fits."""

import random

import pytest

from tests.core.formats.contexts import messages_of
from tests.core.policies.test_budgeted import context, lines, session


@pytest.mark.parametrize("budget", [1024, 2048])
def test_a_clipped_newest_step_takes_the_room_that_notes_leave(budget: int) -> None:
    prose = "\n".join(f"{n} is a line with the output of a test" for n in range(60))
    repeated = [lines(1 + n % 5, 25) for n in range(60)]  # notes have little to add
    chosen = context(session([*repeated, prose]), budget)
    assert next(s for s in reversed(chosen.manifest.segments) if s.step == 61).form == "clipped"
    assert budget - chosen.manifest.tokens < 50
    assert prose.splitlines()[-1] in messages_of(chosen)[-1]["content"]


def test_names_of_random_letters_leave_the_newest_step_its_room() -> None:
    """Notes with them took up to twice their room."""
    source = random.Random(1)
    rows = [" ".join("_".join(source.choices("QZXKVWJqzxkvwj", k=8)) for _ in range(3)) for _ in range(1800)]
    chosen = context(session(["\n".join(rows[start : start + 30]) for start in range(0, 1800, 30)]), 4096)
    assert next(s for s in reversed(chosen.manifest.segments) if s.step == 60).form == "full"
