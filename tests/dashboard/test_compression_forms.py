"""The form behind Compress: it shows the cost first, or says in one sentence why no run can start."""

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.forms.accepted import accepted_text, read_accepted
from historyapp import enqueue
from historyapp.core.prices import load_prices
from historyapp.core.strategies import STRATEGIES
from historyapp.models import AuditRecord, CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.compression.request import AcceptedRun, RunEstimate, RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.sessions import change_session, create_session
from tests.api.compressing import carry_out
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The runs for which workers were woken."""
    runs: list[UUID] = []
    monkeypatch.setattr(enqueue, "wake", runs.append)
    return runs


def form(session: Session, query: str = "") -> str:
    return reverse("compress", args=[session.pk]) + query


def test_the_form_shows_the_work_before_it_starts(alice: Client, session: Session) -> None:
    page = text(alice.get(form(session, "?strategy=simple_extract&from_step=1&to_step=3")))
    assert "Steps 1–3" in page
    assert "Summaries up to 3" in page
    assert "Cost $0" in page
    assert "Compress steps 1–3" in page
    assert not CompressionRun.objects.exists()


def test_the_form_says_what_its_figures_include(alice: Client, session: Session) -> None:
    page, again = text(alice.get(form(session))), text(alice.get(form(session, "?again=1")))
    assert "summaries together have more than 8,000 characters" in page
    assert ("not summarised again" in page, "not summarised again" in again) == (True, False)


def test_all_but_the_newest_steps_are_chosen_by_default(alice: Client, session: Session) -> None:
    assert "Compress step 1 " in text(alice.get(form(session)))


def test_every_strategy_is_offered_with_its_description_and_options(alice: Client, session: Session) -> None:
    page = html(alice.get(form(session)))
    for name, strategy in STRATEGIES.items():
        assert f'value="{name}"' in page
        assert strategy.description in text(alice.get(form(session)))
        for option in strategy.options.model_fields:
            assert f'name="{name}.{option}"' in page


def test_the_estimate_of_a_paid_model_has_its_price(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    page = text(alice.get(form(session, "?strategy=episode_summary&from_step=1&to_step=3")))
    assert "Model calls about 3" in page
    assert "Cost at most $0.0" in page
    assert f"Prices as of {load_prices().as_of}." in page
    unknown = text(
        alice.get(form(session, "?strategy=episode_summary&model=gpt-unheard-of&from_step=1&to_step=3"))
    )
    assert "Cost price unknown" in unknown
    assert f"This model is not in the price list of {load_prices().as_of}." in unknown
    free = text(alice.get(form(session, "?strategy=simple_extract&from_step=1&to_step=3")))
    assert load_prices().as_of not in free


def test_a_missing_key_is_named(alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    own = text(alice.get(form(session, "?strategy=episode_summary")))
    assert "set OPENAI_API_KEY. The local summariser is used instead." in own
    assert "Compress step 1 " in own
    page_with_model = text(alice.get(form(session, "?strategy=episode_summary&model=gpt-5-mini")))
    assert "set OPENAI_API_KEY" in page_with_model
    assert "Compress step 1 " not in page_with_model


def test_a_provider_with_a_key_is_named_if_the_provider_of_the_settings_has_none(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert "has an API key on this server" not in text(alice.get(form(session, "?strategy=episode_summary")))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    page = text(alice.get(form(session, "?strategy=episode_summary")))
    assert "set OPENAI_API_KEY. claude-haiku-4-5 is used instead." in page
    session.settings = {"llm_name": "gpt-5.2"}
    session.save()
    page = text(alice.get(form(session, "?strategy=episode_summary")))
    assert "The session's model for summaries is gpt-5.2. There is no key for this model's provider" in page
    assert "Anthropic has an API key on this server: choose one of its models to use it." in page
    comparison = text(
        alice.get(
            reverse("compare", args=[session.pk]),
            {"a-strategy": "episode_summary", "b-strategy": "ai_summary"},
        )
    )
    assert comparison.count("The session's model for summaries is") == 1


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("strategy=nonsense", "There is no strategy `nonsense`"),
        ("strategy=episode_summary&model=nonsense", "No provider is known for the model 'nonsense'"),
        ("from_step=2&to_step=9", "There is no step 9. Use 1 to 5"),
        ("from_step=3&to_step=2", "`from` is step 3, which comes after `to`, step 2."),
        ("from_step=x", "The first step must be a whole number."),
        ("strategy=simple_extract&simple_extract.max_tokens=1", "options.max_tokens of the strategy"),
    ],
)
def test_an_invalid_form_gets_one_sentence(
    alice: Client, session: Session, query: str, sentence: str
) -> None:
    page = alice.get(form(session, f"?{query}"))
    assert page.status_code == 200
    assert sentence in text(page)
    fields = dict(pair.split("=") for pair in query.split("&"))
    refused = alice.post(form(session), fields)
    assert refused.status_code == 422
    assert sentence in text(refused)
    assert not CompressionRun.objects.exists()


def test_a_session_without_steps_has_nothing_to_compress(alice: Client, project: Project) -> None:
    page = text(alice.get(form(create_session(project))))
    assert "There is nothing to compress: the session has no steps yet." in page
    assert "Compress step" not in page


def test_a_session_whose_steps_all_stay_in_full_has_nothing_to_compress(
    alice: Client, session: Session
) -> None:
    change_session(session.project, session.pk, {"settings": {"full_message_count": 10}})
    page = text(alice.get(form(session)))
    assert "the newest 10 steps stay in full, and there are no other finished steps" in page


def test_sending_the_form_starts_a_run_and_wakes_a_worker(
    alice: Client, session: Session, woken: list[UUID], django_capture_on_commit_callbacks: Any
) -> None:
    fields = {
        "strategy": "structured",
        "structured.style": "table",
        "simple_extract.max_tokens": "7",
        "model": "gpt-5-mini",
        "from_step": "1",
        "to_step": "4",
        "again": "1",
    }
    with django_capture_on_commit_callbacks(execute=True):
        response = alice.post(form(session), fields)
    run = CompressionRun.objects.get()
    assert response["Location"] == reverse("compression", args=[session.pk, run.pk])
    assert (run.strategy, run.model, run.options) == ("structured", "", {"style": "table"})
    assert (run.from_step, run.to_step, run.again, run.actor) == (1, 4, True, "user:alice")
    assert woken == [run.pk]
    assert AuditRecord.objects.filter(action="compress", actor="user:alice").exists()


def test_an_active_run_is_shown_and_joined(alice: Client, session: Session) -> None:
    run = start_run(session.project, session.pk, RunRequest("simple_extract", 1, 2)).run
    page = text(alice.get(form(session)))
    assert "A compression of steps 1–2 is running. A session has one compression at a time." in page
    response = alice.post(form(session), {"strategy": "structured"})
    assert response["Location"] == reverse("compression", args=[session.pk, run.pk]) + "?joined=1"
    assert "No second one was started." in text(alice.get(response["Location"]))
    assert CompressionRun.objects.count() == 1


def test_the_session_page_shows_the_active_run(alice: Client, session: Session) -> None:
    page = reverse("session", args=[session.pk])
    assert "compressing" not in text(alice.get(page))
    run = start_run(session.project, session.pk, RunRequest("simple_extract", 1, 2)).run
    carry_out(run.pk, limit=1)
    assert "compressing, 1 of 2" in text(alice.get(page))
    assert reverse("compression", args=[session.pk, run.pk]) in html(alice.get(page))
    assert "compressing" not in text(alice.get(f"{page}?as_of={session.head}"))


def test_nothing_starts_without_the_forms_token(session: Session, bob: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = bob.cookies
    for name in ("compress", "compare", "write-summary", "session-settings"):
        assert strict.post(reverse(name, args=[session.pk]), {"from_step": "1"}).status_code == 403
    assert not CompressionRun.objects.exists()


def test_the_dialog_gets_only_the_form_and_the_estimate(alice: Client, session: Session) -> None:
    assert html(fragment(alice, form(session))).startswith('<div class="compress">')
    estimate = html(fragment(alice, form(session, "?to_step=2"), target="estimate"))
    assert "<form" not in estimate
    assert "Compress steps 1–2" in estimate


def test_without_scripts_the_estimate_is_a_button(alice: Client, session: Session) -> None:
    response = alice.post(form(session), {"estimate": "1", "strategy": "structured", "to_step": "3"})
    assert response.status_code == 200
    assert "Compress steps 1–3" in text(response)
    assert not CompressionRun.objects.exists()


def test_the_session_page_shows_compress_only_if_a_run_can_start(alice: Client, session: Session) -> None:
    page = reverse("session", args=[session.pk])
    assert form(session) in html(alice.get(page))
    assert form(session) not in html(alice.get(f"{page}?as_of=4"))
    change_session(session.project, session.pk, {"status": "archived"})
    assert form(session) not in html(alice.get(page))
    archived = text(alice.get(form(session)))
    assert "The session is archived. Unarchive it to compress it." in archived
    assert "Compress step" not in archived
    assert alice.post(form(session), {"strategy": "simple_extract"}).status_code == 409


def test_a_step_in_flight_is_left_out(alice: Client, session: Session) -> None:
    append(session.project, session.pk, [act()])
    assert "Compress steps 1–5" in text(alice.get(form(session, "?from_step=1")))


@pytest.mark.parametrize("strategy", ["episode_summary", "head_2", "Keep-Errors"])
def test_the_shown_estimate_of_any_strategy_is_read_back(strategy: str) -> None:
    run = RunEstimate(
        strategy=strategy, model="openai:gpt-5-mini", note="", first_step=1, last_step=6, summaries=6,
        calls=6, tokens_before=100, tokens_in=100, tokens_out=100, cost=1100, prices_as_of="2026-11-29",
    )  # fmt: skip
    assert read_accepted(accepted_text(run)) == AcceptedRun(strategy, run.model, 6, 1100, 1)
