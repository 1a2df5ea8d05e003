"""The thoughts of earlier turns, which a provider leaves out of later requests."""

from typing import Any

from dashboard.rendering.recorded import draw_recorded
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.recorded.changes import request_changes
from historyapp.services.recorded.notes import cache_note, change_note
from historyapp.services.recorded.requests import RecordedRequest, messages, recorded_request
from historyapp.services.sessions import create_session
from tests.services.drafts import ask, draft


def answer(sent: int, read: int, model: str, *, reasoning: int = 0) -> EntryDraft:
    usage: dict[str, Any] = {"input_tokens": sent, "output_tokens": reasoning + 8}
    usage |= {"input_tokens_details": {"cached_tokens": read}}
    usage |= {"output_tokens_details": {"reasoning_tokens": reasoning}}
    return EntryDraft(ModelOutput(text="Done."), metadata={"model": model, "usage": usage})


def second_request(project: Project, model: str, sent: int) -> RecordedRequest:
    session = create_session(project)
    first, second = answer(20_000, 0, model, reasoning=1_527), answer(sent, 20_000, model)
    append(project, session.pk, [ask("go"), first, ask("go on"), second])
    session.refresh_from_db()
    return recorded_request(History(session), 2)


def test_thoughts_that_the_provider_leaves_out_are_named_as_removed(project: Project) -> None:
    """The page said that nothing was removed, and that the instruction had ended the cache."""
    request = second_request(project, "gpt-5", 20_020)
    changes = request_changes(request)
    assert changes is not None
    assert (changes.place, changes.is_missed) == ("removed", False)
    note = change_note(request, changes)
    assert note.startswith("New since step 1: the output of step 1 (+8), 1 input (+2).")
    assert "About 1,500 tokens of thoughts of the earlier turn are no longer sent." in note
    assert messages(request, 1, 1)[0].tokens == 8


def test_thoughts_that_stay_are_not_removed(project: Project) -> None:
    request = second_request(project, "claude-opus-4-5", 21_540)
    changes = request_changes(request)
    assert changes is not None
    assert changes.place == "end"
    assert messages(request, 1, 1)[0].tokens == 1_535


def test_a_cache_that_was_lost_before_the_thoughts_was_not_read_up_to_them(project: Project) -> None:
    """After a pause of hours the page said that the cache had been read up to the thoughts."""
    session = create_session(project)
    first, second = answer(20_000, 0, "gpt-5", reasoning=1_527), answer(20_020, 2_000, "gpt-5")
    append(project, session.pk, [ask("go"), first, ask("go on"), second])
    session.refresh_from_db()
    request = recorded_request(History(session), 2)
    changes = request_changes(request)
    assert changes is not None
    assert changes.missed == 17_968
    assert "did not read 17,968 tokens from its cache" in cache_note(request, changes)


def test_a_request_without_usage_continues_the_last_bill(project: Project) -> None:
    """It was shown with 5,000 tokens more than the requests on both sides of it."""
    session = create_session(project)
    bills = [answer(20_000, 0, "gpt-5"), answer(20_510, 0, "gpt-5")]
    append(
        project, session.pk, [ask("go"), bills[0], ask("on"), bills[1], draft(ModelOutput(text="cut off"))]
    )
    session.refresh_from_db()
    request = recorded_request(History(session), 3)
    panel = draw_recorded(request, None)
    assert request.total == sum(part.tokens for part in panel.parts) == 20_518
    assert panel.size == "about 20,500"
    assert panel.parts[-1].label == "difference from the last bill"
    assert "Its size is estimated from the last billed request." in panel.absent[0]
