"""Pages say for which outputs a source reports too few tokens."""

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.entries import ModelOutput
from historyapp.models import Entry, Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import text
from tests.services.drafts import ask, draft


@pytest.mark.parametrize(("reported", "is_noted"), [(2, True), (500, True), (5_000, False)])
def test_a_reported_output_below_our_count_gets_a_note(
    alice: Client, project: Project, reported: int, is_noted: bool
) -> None:
    session = create_session(project, names={"model": "gpt-5"})
    outputs = [
        draft(ModelOutput(text="many words " * 1_000), usage={"input_tokens": 9_000, "output_tokens": count})
        for count in (reported, 40_000)
    ]
    append(project, session.pk, [ask("go"), *outputs])
    written = Entry.objects.get(session=session, position=2).tokens
    note = (
        "For 1 of 2 outputs (step 1 ), the source reports less than half of the tokens that the text has by "
    )
    overview = reverse("overview", args=[session.pk])
    for page in (overview, f"/sessions/{session.pk}/ledger?step=1"):
        shown = text(alice.get(page))
        assert (note in shown) is is_noted
        assert ("have at least 42k tokens. The true cost is higher." in shown) is is_noted
    step = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert (f"{reported:,} out too few: the output has about {written:,}" in step) is is_noted


def test_an_output_without_a_reported_count_is_not_said_to_have_one(alice: Client, project: Project) -> None:
    session = create_session(project)
    output = draft(ModelOutput(text="many words " * 40), usage={"input_tokens": 100})
    append(project, session.pk, [ask("go"), output])
    shown = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert "100 in · 0 out output not reported: it has about 81" in shown
    assert "too few" not in shown
    note = "less than half of the tokens that the text has by Playhead's count, or none."
    assert note in text(alice.get(reverse("overview", args=[session.pk])))


def test_few_missing_tokens_of_a_run_and_a_reported_cost_are_right(alice: Client, project: Project) -> None:
    session = create_session(project)
    started = draft(
        ModelOutput(text="ten words " * 100), usage={"input_tokens": 9, "output_tokens": 1}, cost=2
    )
    overview = reverse("overview", args=[session.pk])
    whole = draft(ModelOutput(text="fine"), usage={"input_tokens": 9, "output_tokens": 40_000})
    append(project, session.pk, [ask("go"), started])
    assert "For 1 of 1 outputs" in (shown := text(alice.get(overview)))
    assert "true cost" not in shown
    append(project, session.pk, [whole])
    assert "the source reports" not in text(alice.get(overview))


def test_a_cost_that_is_unknown_is_not_called_too_low(alice: Client, project: Project) -> None:
    session = create_session(project)
    started = ModelOutput(text="ten words " * 100)
    usage = {"input_tokens": 9, "output_tokens": 1}
    append(project, session.pk, [draft(started, usage=usage, model="my-own")])
    shown = text(alice.get(reverse("overview", args=[session.pk])))
    assert "the source reports" in shown
    assert "true cost" not in shown
