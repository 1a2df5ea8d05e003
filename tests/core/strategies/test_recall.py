"""Real sessions: extracts keep the names that later steps use. See ``bench/extracting.py``."""

import pytest

from bench.extracting import beginning, extracted, recall
from bench.quality.corpus import load
from historyapp.core.evaluation.targets import FIRST_STEP, targets
from tests.examples import thorough
from tests.shared import SHARED, needs

TOKENS = 100


@needs("corpus")
@pytest.mark.parametrize("every", [8, thorough(1)])
def test_extracts_recall_15_points_more_than_the_beginning_of_each_step(every: int) -> None:
    recorded = load(SHARED / "corpus", every=every)
    sessions = [session for session in recorded if len(session.episodes) >= FIRST_STEP]
    cases = [(session, targets(session)) for session in sessions]
    kept, cut = (recall(cases, write, TOKENS)[0] for write in (extracted, beginning))
    assert kept.wanted == cut.wanted > 5_000 / every
    assert kept.recall >= cut.recall + 15
    assert kept.grounding >= cut.grounding
