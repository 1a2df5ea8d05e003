"""Real sessions: what later steps take from the past stands in the extracts; see ``bench/extracting.py``."""

from bench.extracting import beginning, extracted, recall
from bench.quality.corpus import load
from bench.quality.targets import FIRST_STEP, targets
from tests.shared import SHARED, needs

TOKENS = 100


@needs("corpus")
def test_extracts_recall_15_points_more_than_the_beginning_of_each_step() -> None:
    sessions = [session for session in load(SHARED / "corpus") if len(session.episodes) >= FIRST_STEP]
    cases = [(session, targets(session)) for session in sessions]
    kept, cut = (recall(cases, write, TOKENS)[0] for write in (extracted, beginning))
    assert kept.wanted == cut.wanted > 5_000
    assert kept.recall >= cut.recall + 15
    assert kept.grounding >= cut.grounding
