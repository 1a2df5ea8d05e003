"""Owners spend the project's money; other members see what it would cost, and who may start it."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from historyapp import enqueue
from historyapp.models import ApiKey, CompressionRun, Project, Session
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import create_key
from tests.dashboard.conftest import signed_in
from tests.dashboard.pages import html, text

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
