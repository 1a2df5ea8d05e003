"""What `/messages` returns in addition to the inherited texts, which the golden records test."""

from historyapp.core.entries import Body, ModelInput
from historyapp.core.messages import EpisodicMessages, episodic_messages
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import count_tokens
from tests.core.entries import calls, result, session
from tests.core.policies.past import MemoryPast


def messages(max_tokens: int, full: int = 2) -> EpisodicMessages:
    bodies: list[Body] = [ModelInput(content="go")]
    for number in range(1, 5):
        bodies += [calls(str(number)), result(str(number), f"result {number} " + "word " * 50)]
    settings = SessionSettings(max_tokens=max_tokens, full_message_count=full)
    return episodic_messages(MemoryPast(session(*bodies)), settings, count_tokens)


def results(made: EpisodicMessages) -> list[str]:
    return [message.content.split(" word")[0] for message in made.messages if message.role == "tool"]


def test_the_newest_steps_stay_where_they_alone_exceed_the_budget_and_the_manifest_says_so() -> None:
    made = messages(50)
    assert results(made) == ["result 3", "result 4"]
    assert made.used > 50
    assert made.manifest.notes == [
        "The newest 2 steps and what every request begins with take "
        f"{made.used} tokens: more than the budget of 50."
    ]
    assert messages(50, full=1).manifest.notes[0].startswith("The newest step and what")


def test_a_budget_that_the_newest_steps_keep_is_never_exceeded_and_needs_no_note() -> None:
    enough = messages(50).used
    for budget in range(enough, enough + 120, 7):
        made = messages(budget)
        assert results(made) == ["result 3", "result 4"]
        assert made.used <= budget
        assert made.manifest.notes == []
