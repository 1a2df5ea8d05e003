"""Saving a What if in the context panel, and making it the session's settings."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client

from historyapp.core.settings import load_settings
from historyapp.models import Project, Session, WhatIf
from historyapp.services.what_ifs import WhatIfOptions, save_what_if
from tests.dashboard.pages import fragment, html, text

CHOSEN = "step=3&mode=what_if&policy=masked&max_tokens=900&format=plain&model=gpt-5"


def save(client: Client, session: Session, name: str, query: str = CHOSEN) -> Any:
    return client.post(f"/sessions/{session.pk}/what-ifs?{query}", {"name": name})


def panel(client: Client, session: Session, query: str = "step=3&mode=what_if") -> Any:
    return fragment(client, f"/sessions/{session.pk}/context?{query}")


def change(client: Client, session: Session, **fields: str) -> Any:
    what_if = WhatIf.objects.get()
    return client.post(f"/sessions/{session.pk}/what-ifs/{what_if.pk}?{CHOSEN}", fields)


def test_a_form_saves_the_options_and_redirects_back_to_them(alice: Client, session: Session) -> None:
    response = save(alice, session, " small  one ")
    assert response.status_code == 302
    back = text(alice.get(response.headers["Location"]))
    assert "What the model saw" in back
    saved = WhatIf.objects.get()
    assert (saved.name, saved.policy, saved.max_tokens, saved.format, saved.model, saved.actor) == (
        "small one", "masked", 900, "plain", "gpt-5", "user:alice",
    )  # fmt: skip


def test_a_saved_what_if_is_a_link_to_the_page_with_its_options(alice: Client, session: Session) -> None:
    save(alice, session, "small")
    assert "masked · 900 tokens · plain · gpt-5" in text(panel(alice, session))
    link = f"/sessions/{session.pk}?step=3&amp;mode=what_if&amp;policy=masked&amp;max_tokens=900"
    assert link in html(panel(alice, session))
    assert 'aria-current="true"' not in html(panel(alice, session))
    assert 'aria-current="true"' in html(panel(alice, session, CHOSEN))


def test_the_recorded_request_does_not_list_what_ifs(alice: Client, session: Session) -> None:
    save(alice, session, "small")
    assert "Save as" not in text(panel(alice, session, "step=3"))


def test_a_what_if_becomes_the_settings_of_the_session(alice: Client, session: Session) -> None:
    save(alice, session, "small")
    assert "Use for this session" in text(panel(alice, session))
    response = change(alice, session)
    assert response.headers["Location"] == f"/sessions/{session.pk}?step=3&mode=what_if"
    session.refresh_from_db()
    settings = load_settings(session.settings)
    assert (settings.policy, settings.max_tokens, settings.format) == ("masked", 900, "plain")
    assert session.model == "gpt-5"
    shown = panel(alice, session)
    assert "used by this session" in text(shown)
    assert "/ 900 tokens" in text(shown)


def test_settings_that_a_what_if_leaves_empty_keep_their_value(alice: Client, session: Session) -> None:
    before = load_settings(session.settings)
    save(alice, session, "small", "step=3&max_tokens=0")
    change(alice, session)
    session.refresh_from_db()
    assert load_settings(session.settings) == before.model_copy(update={"max_tokens": 0})


def test_past_requests_are_read_only_if_the_window_is_the_budget(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They show how large the window is at least, which takes up to 2,500 entries."""
    read = Mock(return_value=0)
    monkeypatch.setattr("historyapp.services.recorded.requests.largest_input", read)
    largest = "historyapp.services.recorded.requests.largest_request"
    monkeypatch.setattr(largest, lambda *_: 1_234_567)
    budgets = {"window": "1,234,567", 900: "900", None: "200,000"}
    for budget, shown in budgets.items():
        Session.objects.update(settings={"max_tokens": budget})
        assert f"/ {shown} tokens" in text(panel(alice, session))
    assert "/ 800 tokens" in text(panel(alice, session, "step=3&mode=what_if&max_tokens=800"))
    read.assert_called_once()


def test_a_what_if_is_deleted(alice: Client, session: Session) -> None:
    save(alice, session, "small")
    assert change(alice, session, delete="1").status_code == 302
    assert not WhatIf.objects.exists()


def test_a_what_if_without_options_cannot_be_saved(alice: Client, session: Session) -> None:
    assert "Choose a policy, a budget, a format or a model first" in text(panel(alice, session))
    response = save(alice, session, "empty", "step=3&mode=what_if")
    assert "Choose a policy" in text(response)
    assert not WhatIf.objects.exists()


def test_a_stranger_and_a_what_if_of_another_project_get_404(
    alice: Client, charlie: Client, session: Session
) -> None:
    save(alice, session, "small")
    assert change(charlie, session).status_code == 404
    other = save_what_if(Project.objects.create(name="Other"), "x", WhatIfOptions(policy="live"))
    response = alice.post(f"/sessions/{session.pk}/what-ifs/{other.pk}")
    assert response.status_code == 404


def test_a_name_is_escaped(alice: Client, session: Session) -> None:
    save(alice, session, "<script>alert(1)</script>")
    page = html(panel(alice, session))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
