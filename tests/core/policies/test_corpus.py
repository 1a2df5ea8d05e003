"""Every cut point of real sessions, sampled; ``bench/validity.py`` plays all of them at length."""

from bench.validity import play
from tests.shared import SHARED, needs

WRONG = {"INVALID", "OVER BUDGET", "MISCOUNTED", "MORE THAN COUNTED", "WRONG REFUSALS"}


@needs("corpus")
def test_no_real_session_gives_a_request_that_is_invalid_or_over_its_budget() -> None:
    tally = play(SHARED / "corpus", 800, seed=1)
    assert tally["rendered"] >= 800
    assert {name: tally[name] for name in WRONG} == dict.fromkeys(WRONG, 0)
