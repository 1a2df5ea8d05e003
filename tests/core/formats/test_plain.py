from historyapp.core.entries import ModelOutput, UseTool
from historyapp.core.formats.plain import fmt_list, fmt_paragraph, get_history
from tests.core.entries import result, session
from tests.core.policies.past import MemoryPast

STEPS = MemoryPast(session(ModelOutput(use_tool=UseTool(name="ls")), result(None, "a.py"))).episodes(1, 1)


def test_a_history_reads_as_in_the_earlier_systems() -> None:
    assert fmt_list(STEPS) == "1. Executed `ls()`: a.py"
    assert fmt_paragraph(STEPS).startswith("### Step 1: Executed `ls()`\n")


def test_summaries_come_before_the_steps_with_a_blank_line_between() -> None:
    assert get_history(["Read all.", " ", "Fixed it."], STEPS) == "Read all.\nFixed it.\n\n" + fmt_paragraph(
        STEPS
    )
    assert get_history([], STEPS) == fmt_paragraph(STEPS)
    assert get_history(["Read all."], []) == "Read all."
    assert get_history([], []) == ""
