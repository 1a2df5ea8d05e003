"""The diff of a What if: changes since the step before, the effect on a prompt cache, and the bill."""

import re

from django.test import Client
from django.urls import reverse

from historyapp.core.entries import ModelOutput, SystemInstruction, ToolCall
from historyapp.core.prices import load_prices
from historyapp.core.settings import SessionSettings
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, text
from tests.services.drafts import act, ask, draft, ok


def panel(client: Client, session: Session, query: str) -> str:
    response = fragment(client, reverse("context", args=[session.pk]) + query)
    assert response.status_code == 200
    return text(response)


def test_the_diff_shows_what_was_added_and_what_a_cache_can_reuse(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "gpt-5"}, settings=SessionSettings(max_tokens=50_000))
    append(project, session.pk, [draft(SystemInstruction(text="You repair things. " * 600))])
    for _ in range(3):
        append(project, session.pk, [act("read"), ok()])
    shown = panel(alice, session, "?step=3&policy=live&view=diff")
    assert "step 3 – full" in shown
    assert re.search(r"Reusable from cache 2,\d{3} tokens", shown)
    assert re.search(r"Saved by caching \$0\.00[1-9]\d*", shown)
    assert f"Prices as of {load_prices().as_of}." in shown
    assert "Input with this cache $0.0" in shown
    assert "That is the end of the previous request: nothing was removed." in shown
    assert "The request continues here" in shown
    page = reverse("context", args=[session.pk])  # without htmx
    assert "The request continues here" in text(alice.get(page + "?step=3&policy=live&view=diff"))


def test_the_diff_says_where_the_cache_breaks(alice: Client, session: Session) -> None:
    shown = panel(alice, session, "?step=5&policy=episodic&view=diff&max_tokens=400")
    assert "The prompt cache breaks here" in shown
    assert "nothing was lost" not in shown


def test_the_diff_names_the_part_that_differs_first(alice: Client, session: Session) -> None:
    shown = panel(alice, session, "?step=3&policy=live&view=diff&max_tokens=5000")
    assert re.search(r"The first difference is at byte [\d,]+, in step 3 ?\.", shown)
    assert "The bill for step 4 is unknown: no usage is recorded." in shown


def test_the_diff_is_shown_with_the_bill(alice: Client, project: Project) -> None:
    session = create_session(project)
    usage = {"input_tokens": 900, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 800}}
    append(project, session.pk, [ask("go"), draft(ModelOutput(text="done"), usage=usage)])
    shown = panel(alice, session, "?step=1&view=diff")
    assert "For step 1 the provider billed 900 input tokens, 800 of them read from its cache." in shown
    assert "This is the previous request, because no step follows this one." in shown


def test_a_cache_miss_with_equal_requests_has_an_unknown_reason(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "gpt-5"}, settings=SessionSettings(max_tokens=50_000))
    append(project, session.pk, [draft(SystemInstruction(text="You repair things. " * 3_000)), ask("go")])
    for read in (0, 0, 12_000):
        usage = {"input_tokens": 12_100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": read}}
        calls = (ToolCall(id=f"call_{read}", name="read", arguments={}),)
        append(
            project,
            session.pk,
            [draft(ModelOutput(tool_calls=calls), usage=usage, model="gpt-5"), ok(f"call_{read}")],
        )
    missed = panel(alice, session, "?step=1&policy=live&view=diff")
    assert re.search(
        r"For step 2 the provider billed 12,100 input tokens, 0 of them .* It cost \$0\.0", missed
    )
    assert re.search(
        r"the provider did not read [\d,]+ of them from its cache. The reason is unknown", missed
    )
    read_from_cache = panel(alice, session, "?step=2&policy=live&view=diff")
    assert "For step 3 the provider billed" in read_from_cache
    assert "The reason is unknown" not in read_from_cache


def test_without_a_known_price_the_saving_is_unknown(alice: Client, session: Session) -> None:
    shown = panel(alice, session, "?step=3&view=diff&model=my-own")
    assert "Saved by caching unknown" in shown
    assert f"my-own is not in the price list of {load_prices().as_of}." in shown


def test_the_same_context_twice_has_no_break(alice: Client, session: Session) -> None:
    shown = panel(alice, session, "?step=5&view=diff&policy=episodic&max_tokens=200")
    assert "The prompt cache breaks here" in shown or "is the same" in shown
