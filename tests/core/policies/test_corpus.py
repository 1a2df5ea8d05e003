"""Every cut point of real sessions, sampled; ``bench/validity.py`` plays all of them at length."""

import pytest

from bench.validity import play
from tests.examples import thorough
from tests.shared import SHARED, needs

WRONG = {"INVALID", "OVER BUDGET", "MISCOUNTED", "MORE THAN COUNTED", "WRONG REFUSALS"}


@needs("corpus")
@pytest.mark.parametrize("cuts", [120, thorough(800)])
def test_no_real_session_gives_a_request_that_is_invalid_or_over_its_budget(cuts: int) -> None:
    tally = play(SHARED / "corpus", cuts, seed=1)
    assert tally["rendered"] >= cuts
    assert {name: tally[name] for name in WRONG} == dict.fromkeys(WRONG, 0)
