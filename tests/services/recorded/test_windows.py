"""What the notes of a request say about the steps that the agent no longer sent."""

from historyapp.core.entries import ModelInput
from historyapp.core.windows import CLEARED
from historyapp.models import Session
from historyapp.services.recorded.notes import window_note
from tests.services.drafts import ask, draft
from tests.services.recorded.test_requests import record, seen, step, steps


def test_only_cleared_steps_are_named(session: Session) -> None:
    cleared = draft(ModelInput(content=CLEARED, channel="command"))
    record(session, cleared, ask("go"), step(1))
    assert window_note(seen(session, 1)) == "", "an earlier session was cleared"
    record(session, *steps(None), cleared, ask("go on"), step(3))
    assert window_note(seen(session, 3)).startswith("The agent had cleared step")
