"""The newest step has the room that is left, in whatever form it fits."""

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
