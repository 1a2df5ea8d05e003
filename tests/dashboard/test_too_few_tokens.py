"""Pages say for which outputs a source reports too few tokens."""

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.entries import ModelOutput
from historyapp.models import Entry, Project, Session
from historyapp.services.append import append
from historyapp.services.figures.feed import follow_changes
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ask, draft, ok


@pytest.mark.parametrize(("reported", "is_noted"), [(2, True), (500, True), (5_000, False)])
def test_a_reported_output_below_our_count_gets_a_note(
    alice: Client, project: Project, settled: None, reported: int, is_noted: bool
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
        assert ("have at least 42k tokens. The true cost is higher: by the price" in shown) is is_noted
    comparison = f"/compare?a={session.pk}&b={session.pk}@2"
    follow_changes(lambda: False)
    for page in (
        "/",
        "/figures",
        overview,
        f"/sessions/{session.pk}",
        f"/sessions/{session.pk}/ledger?step=1",
        comparison,
    ):
        assert ("≥ $0." in text(alice.get(page))) is is_noted, page
    step = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert (f"{reported:,} out as reported; the output has about {written:,} tokens" in step) is is_noted


def test_an_output_without_a_reported_count_is_not_said_to_have_one(alice: Client, project: Project) -> None:
    session = create_session(project)
    output = draft(ModelOutput(text="many words " * 40), usage={"input_tokens": 100})
    append(project, session.pk, [ask("go"), output])
    shown = text(alice.get(f"/sessions/{session.pk}?step=1"))
    assert "100 in · 0 out output not reported: it has about 81 tokens" in shown
    assert "as reported;" not in shown
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


@pytest.mark.parametrize(
    ("models", "costs"),
    [
        (("claude-opus-4-5", "claude-opus-4-5"), True),
        (("claude-opus-4-5", "gpt-5"), True),
        (("claude-opus-4-5", "my-own"), False),
    ],
)
def test_the_note_says_what_missing_tokens_cost_at_least(
    alice: Client, project: Project, models: tuple[str, ...], *, costs: bool
) -> None:
    """By the lowest price of the run's models, unless one of them has none."""
    session, usage = create_session(project), {"input_tokens": 1_000_000, "output_tokens": 0}
    outputs = [draft(ModelOutput(text="many words " * 40_000), usage=usage, model=name) for name in models]
    append(project, session.pk, [ask("go"), *outputs])
    written = sum(Entry.objects.filter(session=session, position__gt=1).values_list("tokens", flat=True))
    lowest = min(price for name in models if (price := {"claude-opus-4-5": 25, "gpt-5": 10}.get(name)))
    known = {"claude-opus-4-5": 5, "gpt-5": 1.25}
    more, total = written * lowest / 1e6, sum(known.get(name, 0) for name in models)
    for page in (reverse("overview", args=[session.pk]), f"/sessions/{session.pk}/ledger?step=1"):
        shown = text(alice.get(page))
        assert (f"by the price list, it is at least ${total + more:.2f}, ${more:.2f} more." in shown) is costs
        assert f"≥ ${total:.2f}" in shown


def test_a_cost_without_the_calls_of_a_model_is_marked_everywhere(alice: Client, project: Project) -> None:
    session, other = (create_session(project, names={"agent": "fixer"}) for _ in range(2))
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    models = ("claude-haiku-4-5", "no-such-model")
    append(project, session.pk, [draft(ModelOutput(text="x"), model=model, usage=usage) for model in models])
    append(project, other.pk, [draft(ModelOutput(text="unpriced"))])
    pages = ["/", "/?group=agent", reverse("overview", args=[session.pk]), f"/sessions/{session.pk}"]
    pages += [f"/sessions/{session.pk}/ledger?step=1", f"/compare?a={session.pk}&b={session.pk}@1"]
    for page in pages:
        assert "≥ $1.00" in text(alice.get(page)), page
    assert "Models without a known price are left out." in html(alice.get("/"))


def test_the_cost_of_a_sub_agent_is_marked_in_the_run_that_started_it(
    alice: Client, project: Project
) -> None:
    parent, child = create_session(project), create_session(project)
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    append(project, parent.pk, [ask("go"), act("task", prompt="look"), ok()])
    output = draft(ModelOutput(text="many words " * 1_000), model="claude-haiku-4-5", usage=usage)
    append(project, child.pk, [output])
    Session.objects.filter(pk=child.pk).update(spawned_by=parent, spawned_position=2)
    assert "· ≥ $1.00" in text(alice.get(f"/sessions/{parent.pk}?step=1"))
    assert "at least $1.00" in text(alice.get(reverse("overview", args=[parent.pk])))
