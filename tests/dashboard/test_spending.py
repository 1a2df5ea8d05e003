"""Owners spend the project's money; other members see what it would cost, and who may start it."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from historyapp import enqueue
from historyapp.core.entries import ModelOutput
from historyapp.models import ApiKey, CompressionRun, Project, Session
from historyapp.services.append import append
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import create_key
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import change_session
from tests.dashboard.conftest import signed_in
from tests.dashboard.pages import html, text
from tests.services.drafts import act, draft, ok

PAID = {"strategy": "episode_summary", "model": "gpt-5-mini", "from_step": "1", "to_step": "3"}
ONLY_OWNERS = "Only owners of the project may start it."


@pytest.fixture(autouse=True)
def _a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(enqueue, "wake", lambda run: None)


@pytest.fixture
def address(session: Session) -> str:
    return reverse("compress", args=[session.pk])


def test_an_owner_starts_a_paid_run(alice: Client, address: str) -> None:
    page = alice.get(address, PAID)
    assert ONLY_OWNERS not in text(page)
    assert alice.post(address, {**PAID, **sent(page)}).status_code == 302
    assert CompressionRun.objects.get().model == "openai:gpt-5-mini"


def test_a_member_sees_the_estimate_and_who_may_start_it(bob: Client, address: str) -> None:
    page = bob.get(address, PAID)
    assert "Model calls about 3" in text(page)
    assert ONLY_OWNERS in text(page)
    assert "Compress steps 1–3" not in text(page)
    refused = bob.post(address, {**PAID, **sent(page)})
    assert (refused.status_code, CompressionRun.objects.count()) == (422, 0)
    assert ONLY_OWNERS in text(refused)


def test_a_member_starts_a_run_with_the_local_summariser(bob: Client, address: str) -> None:
    assert bob.post(address, {**PAID, "model": "local"}).status_code == 302
    assert CompressionRun.objects.get().model == "local"


def test_a_member_cannot_compare_with_or_retry_a_paid_model(
    alice: Client, bob: Client, session: Session, address: str
) -> None:
    sides = {f"{side}-{name}": PAID[name] for side in "ab" for name in ("strategy", "model")}
    comparison = reverse("compare", args=[session.pk])
    form = {**PAID, **sides}
    compared = bob.post(comparison, {**form, **sent(bob.get(comparison, form))})
    assert (compared.status_code, CompressionRun.objects.count()) == (422, 0)
    alice.post(address, {**PAID, **sent(alice.get(address, PAID))})
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
    """The fields with estimates that a click on the page's button sends."""
    return dict(re.findall(r'<input[^>]* name="([\w.-]*accepted)" value="([^"]*)"', html(page)))


def test_a_click_starts_only_the_steps_that_were_shown(alice: Client, session: Session, address: str) -> None:
    """Whoever may write to the session can add steps between the page and the click."""
    form = {"strategy": "episode_summary", **sent(alice.get(address))}
    assert form["accepted"].startswith("1-1 ")
    append(session.project, session.pk, [entry for _ in range(20) for entry in (act("ls"), ok())])
    assert alice.post(address, form).status_code == 302
    run = CompressionRun.objects.get()
    assert (run.from_step, run.to_step, run.model) == (1, 1, "openai:gpt-5-mini")


def test_a_click_starts_no_other_model_than_was_shown(alice: Client, session: Session, address: str) -> None:
    form = {"strategy": "episode_summary", **sent(alice.get(address))}
    change_session(session.project, session.pk, {"settings": {"llm_name": "gpt-5-pro"}})
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Check the new estimate" in text(refused)
    assert alice.post(address, {**form, **sent(refused)}).status_code == 302


def test_a_paid_run_with_open_steps_starts_only_after_its_estimate(alice: Client, address: str) -> None:
    refused = alice.post(address, {"strategy": "episode_summary", "accepted": "1-999"})
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Nothing was started" in text(refused)


@pytest.mark.parametrize("steps", [("1", "3"), ("", ""), ("-3", "")])
@pytest.mark.parametrize("name", ["compress", "compare"])
def test_a_click_starts_nothing_that_costs_more(
    alice: Client, session: Session, name: str, steps: tuple[str, str]
) -> None:
    """Whoever may write can replace short steps with long ones between the page and the click."""
    fields = ("strategy", "model", "a-strategy", "a-model", "b-strategy", "b-model")
    form = {field: PAID[field.removeprefix("a-").removeprefix("b-")] for field in fields}
    form |= {"from_step": steps[0], "to_step": steps[1]}
    address = reverse(name, args=[session.pk])
    form |= sent(alice.get(address, form))
    rewind(session.project, session.pk, Target(to_position=1))
    long_step = ModelOutput(text="many words " * 2000)
    append(session.project, session.pk, [draft(long_step) for _ in range(session.steps)])
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Request it again" in text(refused)
    assert alice.post(address, {**form, **sent(refused)}).status_code == 302


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("compress", {"strategy": "episode_summary"}),
        ("compress", {"strategy": "structured"}),
        ("compare", {"a-strategy": "episode_summary", "b-strategy": "episode_summary"}),
        ("compare", {"a-strategy": "structured", "b-strategy": "episode_summary"}),
    ],
)
def test_steps_counted_from_the_end_are_those_that_were_shown(
    alice: Client, session: Session, name: str, sides: dict[str, str]
) -> None:
    address, form = reverse(name, args=[session.pk]), {**sides, "from_step": "-3"}
    form |= sent(alice.get(address, form))
    append(session.project, session.pk, [entry for _ in range(3) for entry in (act("ls"), ok())])
    assert alice.post(address, form).status_code == 302
    assert {(run.from_step, run.to_step) for run in CompressionRun.objects.all()} == {(3, 5)}


@pytest.mark.parametrize(
    "changed",
    [{"from_step": "2"}, {"to_step": "2"}, {"to_step": "4"}, {"to_step": "5"}, {"model": "gpt-5-pro"}],
)
def test_a_form_that_was_changed_after_its_estimate_starts_nothing(
    alice: Client, address: str, changed: dict[str, str]
) -> None:
    """Without scripts, the estimate stays the same while somebody changes the form."""
    refused = alice.post(address, {**PAID, **sent(alice.get(address, PAID)), **changed})
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "Check the new estimate" in text(refused)


def test_a_comparison_of_different_steps_is_not_started(alice: Client, session: Session) -> None:
    """Only the form of one side has an estimate, which is older than the newest steps."""
    address = reverse("compare", args=[session.pk])
    form = {"a-strategy": "structured", "b-strategy": "episode_summary", "from_step": "-3"}
    form["b-accepted"] = sent(alice.get(address, form))["b-accepted"]
    append(session.project, session.pk, [act("ls"), ok()])
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert "would summarise different steps" in text(refused)
    assert alice.post(address, {**form, **sent(refused)}).status_code == 302


def test_a_run_whose_steps_a_rewind_has_cut_off_is_not_started(alice: Client, session: Session) -> None:
    address, form = reverse("compress", args=[session.pk]), {"strategy": "episode_summary", "from_step": "-1"}
    form |= sent(alice.get(address, form))
    rewind(session.project, session.pk, Target(to_step=2))
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)


def test_a_comparison_calls_the_models_that_were_shown(alice: Client, session: Session) -> None:
    address = reverse("compare", args=[session.pk])
    form = {"from_step": "1", "to_step": "2", "a-strategy": "episode_summary", "b-strategy": "ai_summary"}
    form |= sent(alice.get(address, form))
    change_session(session.project, session.pk, {"settings": {"llm_name": "gpt-5-pro"}})
    refused = alice.post(address, form)
    assert (refused.status_code, CompressionRun.objects.count()) == (409, 0)
    assert alice.post(address, {**form, **sent(refused)}).status_code == 302
    assert {run.model for run in CompressionRun.objects.all()} == {"openai:gpt-5-pro"}
