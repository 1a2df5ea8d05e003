"""Plans that Claude Code added to calls after the model had answered, in contexts."""

from datetime import UTC, datetime

from bench.quality.costs import METER
from historyapp.core.entries import Entry, ModelOutput, ToolCall
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.settings import SessionSettings
from tests.core.policies.past import MemoryPast

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shown(**arguments: str) -> list[tuple[int | None, str | None]]:
    """The parts of a context of eight steps, of which the fourth has a long plan."""
    calls = [ToolCall(id=f"call_{number}", name="read") for number in range(1, 9)]
    written = {"plan": "- a step\n" * 2000, **arguments}
    calls[3] = ToolCall(id="plan", name="ExitPlanMode", arguments=written)
    outputs = [ModelOutput(tool_calls=(tool_call,)) for tool_call in calls]
    entries = [Entry(position, output, NOW) for position, output in enumerate(outputs, 1)]
    chosen = BUDGETED.choose(MemoryPast(entries), SessionSettings(max_tokens=4000), METER)
    return [(segment.step, segment.form) for segment in chosen.manifest.segments]


def test_a_plan_that_is_not_counted_as_written_leaves_room_for_other_steps() -> None:
    assert len(shown(planFilePath="/p/plan.md")) > 5
    assert shown(planFilePath="/p/plan.md") == shown(other="/p/plan.md")
