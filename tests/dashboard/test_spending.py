"""Owners spend the project's money; other members see what it would cost, and who may start it."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from historyapp import enqueue
from historyapp.models import ApiKey, CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import create_key
from historyapp.services.sessions import change_session
from tests.dashboard.conftest import signed_in
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ok

PAID = {"strategy": "episode_summary", "model": "gpt-5-mini", "from_step": "1", "to_step": "3"}
ONLY_OWNERS = "Only owners of the project may start it."


@pytest.fixture(autouse=True)
def _a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(enqueue, "wake", lambda run: None)


@pytest.fixture
def address(session: Session) -> str:
    return reverse("compress", args=[session.pk])


def test_an_owner_starts_a_paid_run_as_before(alice: Client, address: str) -> None:
    assert ONLY_OWNERS not in text(alice.get(address, PAID))
    assert alice.post(address, PAID).status_code == 302
    assert CompressionRun.objects.get().model == "openai:gpt-5-mini"


def test_a_member_sees_the_estimate_and_who_may_start_it(bob: Client, address: str) -> None:
    page = bob.get(address, PAID)
    assert "Model calls about 3" in text(page)
    assert ONLY_OWNERS in text(page)
    assert "Compress steps 1–3" not in text(page)
    refused = bob.post(address, PAID)
    assert (refused.status_code, CompressionRun.objects.count()) == (422, 0)
    assert ONLY_OWNERS in text(refused)


def test_a_member_starts_a_run_with_the_local_summariser(bob: Client, address: str) -> None:
    assert bob.post(address, {**PAID, "model": "local"}).status_code == 302
    assert CompressionRun.objects.get().model == "local"


def test_a_member_cannot_compare_with_or_retry_a_paid_model(
    alice: Client, bob: Client, session: Session, address: str
) -> None:
    sides = {f"{side}-{name}": PAID[name] for side in "ab" for name in ("strategy", "model")}
    compared = bob.post(reverse("compare", args=[session.pk]), {**PAID, **sides})
    assert (compared.status_code, CompressionRun.objects.count()) == (422, 0)
    alice.post(address, PAID)
    run = CompressionRun.objects.get()
    alice.post(reverse("cancel-compression", args=[session.pk, run.pk]))
    retry = reverse("retry-compression", args=[session.pk, run.pk])
    assert bob.post(retry).status_code == 403
    assert alice.post(retry).status_code == 302


def test_staff_grant_and_withdraw_the_scope_in_the_administration(project: Project) -> None:
    key, _ = create_key(project, "agent")
    staff, keys = signed_in(bootstrap().user), "/admin/historyapp/apikey/"
    for action, scopes in (("allow_spending", "read, write, spend"), ("stop_spending", "read, write")):
        chosen = {"action": action, "_selected_action": [str(key.pk)]}
        assert f"now has the scopes {scopes}." in text(staff.post(keys, chosen, follow=True))
        assert ", ".join(ApiKey.objects.get(pk=key.pk).scopes) == scopes
    assert "key_hash" not in html(staff.get(f"{keys}{key.pk}/change/"))


def test_staff_with_read_permission_cannot_grant_the_scope(project: Project) -> None:
    key, _ = create_key(project, "agent")
    viewer = signed_in(User.objects.create_user("viewer", is_staff=True))
    chosen = {"action": "allow_spending", "_selected_action": [str(key.pk)]}
    assert viewer.post("/admin/historyapp/apikey/", chosen).status_code == 403
    assert ApiKey.objects.get(pk=key.pk).scopes == ["read", "write"]


def sent(page: Any) -> dict[str, str]:
    """The fields that a click on the page's button sends."""
    fields = re.findall(r'<input[^>]* name="([\w.-]*accepted)" value="([^"]*)"', html(page))
    return {"strategy": "episode_summary", **dict(fields)}


def test_a_click_starts_only_the_steps_that_were_shown(alice: Client, session: Session, address: str) -> None:
    """Whoever may write to the session can add steps between the page and the click."""
    form = sent(alice.get(address))
    assert form["accepted"].startswith("1-1 ")
    append(session.project, session.pk, [entry for _ in range(20) for entry in (act("ls"), ok())])
    assert alice.post(address, form).status_code == 302
    run = CompressionRun.objects.get()
    assert (run.from_step, run.to_step, run.model) == (1, 1, "openai:gpt-5-mini")


def test_a_click_starts_no_other_model_than_was_shown(alice: Client, session: Session, address: str) -> None:
    form = sent(alice.get(address))
    change_session(session.project, session.pk, {"settings": {"llm_name": "gpt-5-pro"}})
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Check the new estimate" in text(refused)
    assert alice.post(address, sent(refused)).status_code == 302


def test_a_paid_run_with_open_steps_starts_only_after_its_estimate(alice: Client, address: str) -> None:
    refused = alice.post(address, {"strategy": "episode_summary", "accepted": "1-999"})
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Nothing was started" in text(refused)


def test_a_comparison_calls_the_models_that_were_shown(alice: Client, session: Session) -> None:
    address = reverse("compare", args=[session.pk])
    form = {"from_step": "1", "to_step": "2", "a-strategy": "episode_summary", "b-strategy": "ai_summary"}
    form |= {name: value for name, value in sent(alice.get(address, form)).items() if "-" in name}
    change_session(session.project, session.pk, {"settings": {"llm_name": "gpt-5-pro"}})
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    again = {**form, **{name: value for name, value in sent(refused).items() if "-" in name}}
    assert alice.post(address, again).status_code == 302
    assert {run.model for run in CompressionRun.objects.all()} == {"openai:gpt-5-pro"}
