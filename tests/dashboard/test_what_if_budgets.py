"""The default budget of What if: the recorded window without what the agent adds; and its count."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.entries import ModelOutput
from historyapp.models import Project, Session, TokenCorrection
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import fragment, text
from tests.services.drafts import answer, ask, draft


def recorded(project: Project, model: str, sent: int, window: int | None = None) -> Session:
    session = create_session(project, names={"model": model})
    source = {"line": 1} | ({"window": window} if window else {})
    usage = {"input_tokens": sent, "output_tokens": 9}
    output = draft(ModelOutput(text="done"), model=model, usage=usage, source=source)
    append(project, session.pk, [ask("Repair the totals. " * 3_000), output])
    return session


def panel(client: Client, session: Session, query: str = "") -> str:
    path = reverse("context", args=[session.pk]) + f"?step=1&mode=what_if{query}"
    return text(fragment(client, path))


def test_the_default_budget_is_the_recorded_window_without_what_the_agent_adds(
    alice: Client, project: Project
) -> None:
    session = recorded(project, "gpt-5", 130_000, window=258_400)
    shown = panel(alice, session)
    [unseen] = re.findall(r"about ([\d,]+) tokens, by the request of step 1\.", shown)
    unseen_tokens = int(unseen.replace(",", ""))
    assert 110_000 < unseen_tokens < 125_000
    assert f"/ {258_400 - unseen_tokens:,} tokens" in shown
    assert "The budget is the context window of 258,400 tokens, less these." in shown
    assert "/ 900,000 tokens" in panel(alice, session, "&max_tokens=900000")
    change_session(project, session.pk, {"settings": {"max_tokens": 150_000}})
    assert "/ 150,000 tokens" in panel(alice, session)
    assert "less these" not in panel(alice, session)


def test_another_model_and_an_unknown_window_have_budgets_of_their_own(
    alice: Client, project: Project
) -> None:
    session = recorded(project, "gpt-5", 130_000, window=258_400)
    assert "window of 922,000 tokens" in panel(alice, session, "&model=gpt-5.4")
    unknown = panel(alice, recorded(project, "my-own", 130_000))
    assert "/ 200,000 tokens" in unknown
    assert "less these" not in unknown


@pytest.mark.parametrize(("model", "is_estimated"), [("claude-opus-4-6", True), ("gpt-5", False)])
def test_a_cautious_count_names_the_count_of_recorded(
    alice: Client, project: Project, model: str, is_estimated: bool
) -> None:
    session = recorded(project, model, 130_000)
    shown = panel(alice, session)
    assert ("A cautious count, with 1.25 tokens for each token" in shown) == is_estimated
    if not is_estimated:
        return
    [tokens] = re.findall(r"With 1\.17, as in Recorded, the request has about ([\d,]+)\.", shown)
    whole = text(fragment(alice, reverse("context", args=[session.pk]) + "?step=1"))
    [inputs] = re.findall(r"user input ([\d,]+)", whole)
    assert abs(int(tokens.replace(",", "")) - int(inputs.replace(",", ""))) < 600
    TokenCorrection.objects.create(project=project, model=model, calls=1, ours=100, theirs=119, missed=1)
    assert "A cautious count" not in panel(alice, session)


def test_in_a_fork_the_panel_and_what_if_have_the_window_of_the_parent(
    alice: Client, project: Project
) -> None:
    child = fork(project, recorded(project, "gpt-5.4", 130_000, window=258_400).pk, at_position=2)
    append(project, child.pk, [ask("Go on."), answer()])
    path = reverse("context", args=[child.pk]) + "?step=2"
    assert "context window 258,400 (recorded)" in text(fragment(alice, path))
    assert "The budget is the context window of 258,400 tokens" in text(
        fragment(alice, path + "&mode=what_if")
    )
    overview = text(alice.get(reverse("overview", args=[child.pk])))
    assert "context window 258,400 (recorded)" in overview
