"""A short version of ``bench/kills_compressing.py``: server, workers and Redis are killed during a run.

``tests/test_worker_processes.py`` kills one worker in each run of the tests.
"""

import random

import pytest

from bench.kills_compressing import kill_while_compressing


@pytest.mark.slow
@pytest.mark.thorough
def test_every_step_has_one_summary_in_the_end_after_any_kill() -> None:
    seen = kill_while_compressing(80, 6, random.Random(7), pause=0.8)
    assert seen.by_part.total() == 6
    assert (seen.state, seen.wrong) == ("succeeded", 0)
    assert seen.calls <= seen.max_calls
