"""Which steps count, and which identifiers a step needs."""

from bench.quality.corpus import Recorded
from historyapp.core.episodes import group_episodes
from historyapp.core.evaluation.targets import (
    DECISIONS,
    FIRST_STEP,
    MAX_CHARACTERS,
    coverage,
    measured_steps,
    spread,
    targets,
)
from tests.core.entries import entry
from tests.services.drafts import act, ask, ok


def session(*results: str, uses: str) -> Recorded:
    """Six steps with results, and a seventh that uses a name."""
    drafts = [ask("Fix src/parser.py.")]
    for number in range(FIRST_STEP - 1):
        drafts += [
            act("ls", path=f"own/file_{number}.py"),
            ok(outputs=" ".join(results[number : number + 1])),
        ]
    drafts += [act("read", path=uses), ok()]
    entries = [entry(position, draft.body) for position, draft in enumerate(drafts, 1)]
    return Recorded("", "", "", list(group_episodes(entries)), entries[:1], [])


def test_a_long_session_counts_no_more_than_its_share() -> None:
    steps = measured_steps({step: [] for step in range(7, 500)})
    assert len(steps) == DECISIONS
    assert steps == sorted(set(steps))
    assert steps[0] < 40
    assert steps[-1] > 460
    assert measured_steps({9: [], 11: []}) == [9, 11]


def test_a_step_needs_the_names_that_it_uses_and_an_input_or_a_result_had_first() -> None:
    assert [target.name for target in targets(session(uses="src/parser.py"))[FIRST_STEP]] == ["src/parser.py"]
    assert [target.name for target in targets(session("see lib/a.c", uses="lib/a.c"))[FIRST_STEP]] == [
        "lib/a.c"
    ]
    assert targets(session(uses="own/file_3.py")) == {}, "the model wrote it first"
    assert targets(session(uses="never/seen.py")) == {}


def test_bounds_of_long_sessions_leave_out_names_and_steps() -> None:
    read = session("see lib/a.c and lib/b.c", uses="lib/a.c lib/b.c")
    assert len(targets(read)[FIRST_STEP]) == 2
    assert len(targets(read, max_names=1)[FIRST_STEP]) == 1
    assert targets(read, max_steps=0) == {}
    assert spread(range(100), 4) == [12, 37, 62, 87]


def test_of_a_very_long_argument_the_beginning_is_read() -> None:
    read = session("see lib/a.c", "see lib/b.c", uses=f"lib/a.c {'é' * MAX_CHARACTERS} lib/b.c")
    assert [target.name for target in targets(read)[FIRST_STEP]] == ["lib/a.c"]


def test_grounded_recall_needs_the_words_around_a_name() -> None:
    (needed,) = targets(session("the parser is in lib/a.c at line 12", uses="lib/a.c"))[FIRST_STEP]
    assert coverage([needed], "Seen: lib/a.c") == (1.0, 0.0)
    assert coverage([needed], "so the parser is in lib/a.c") == (1.0, 1.0)
    assert coverage([needed], "lib/a.cpp") == (0.0, 0.0), "a whole word"
