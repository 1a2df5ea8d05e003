"""A project's list of models applies to every paid call. Withdrawn permission ends waiting work."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from historyapp.core.errors import Invalid
from historyapp.models import ApiKey, CompressionRun, Membership, Project, Session
from historyapp.services.append import append
from historyapp.services.caps import set_caps
from historyapp.services.compression import summarise
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan, read_jobs
from historyapp.services.compression.request import FALLBACK_MODEL, RunRequest, estimate
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import cancel_run, compress_if_due, retry_run, start_run
from historyapp.services.compression.summarise import Summariser
from historyapp.services.connections import short_connection
from historyapp.services.keys import change_scopes, create_key, revoke_key
from historyapp.services.projects import change_project, read_models
from historyapp.services.sessions import create_session
from historyapp.services.spending import Spender, allows_model
from historyapp.services.strategy_comparisons import start_comparison
from historyapp.services.summary_writers.writers import InlineWriter
from historyapp.wire.problems import ModelNotAllowed
from tests.llm.loopback import Loopback, Refusal
from tests.services.compression.conftest import Record, loopback, loopback_server, record
from tests.services.drafts import act, ok

__all__ = ["loopback", "loopback_server", "record"]
pytestmark = pytest.mark.django_db(transaction=True)
ONLY_HAIKU = {"allowed_models": ["claude-haiku-4-5"]}
REFUSED = "This project does not allow the model .*gpt-5-mini. It allows claude-haiku-4-5."


def worked_on(run: CompressionRun) -> CompressionRun:
    process_run(run.pk)
    return CompressionRun.objects.get(pk=run.pk)


def automatic_run(project: Project) -> CompressionRun:
    session = create_session(project)
    for _ in range(8):
        append(project, session.pk, [act("read", path="a.py"), ok()])
    run = compress_if_due(session.pk)
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("listed", "model", "is_allowed"),
    [
        ([], "gpt-5", True),
        (["gpt-5"], "gpt-5", True),
        (["gpt-5"], "openai_responses:gpt-5", True),
        (["openai:gpt-5"], "gpt-5", True),
        (["openai:gpt-5"], "openai_responses:gpt-5", False),
        (["openai:gpt-5"], "openai:openai:gpt-5", False),
        (["openai:gpt-5"], "anthropic:openai:gpt-5", False),
        (["openai:openai:gpt-5"], "openai:openai:gpt-5", True),
        (["gpt-5-nano"], "openai:ft:gpt-5-pro:gpt-5-nano", False),
        (["gpt-5-nano"], "openai:openai/gpt-5-nano", False),
        (["gpt-5"], "gpt-5-2025-08-07", False),
        (["gpt-5"], "GPT-5", False),
        (["gpt-5"], "local", True),
        (["gpt-5"], "", True),
    ],
)
def test_a_model_is_allowed_by_its_exact_name(listed: list[str], model: str, is_allowed: bool) -> None:
    assert allows_model(Project(allowed_models=listed), model) is is_allowed


def test_a_list_is_read_without_blanks_repetitions_and_local() -> None:
    assert read_models([" gpt-5 ", "", "gpt-5", "local", "openai:own"]) == ["gpt-5", "openai:own"]
    with pytest.raises(Invalid, match="No provider is known"):
        read_models(["bert"])
    with pytest.raises(Invalid, match="at most 100"):
        read_models(f"gpt-{number}" for number in range(101))


def test_a_model_that_is_not_listed_is_refused_for_estimates_runs_and_comparisons(
    project: Project, record: Record, loopback: Loopback
) -> None:
    session, run_request = record(6), RunRequest(model="gpt-5-mini")
    started = start_run(project, session.pk, run_request).run
    cancel_run(started)
    project, session = change_project(project, ONLY_HAIKU), Session.objects.get(pk=session.pk)
    local = RunRequest(from_step=1, to_step=2, model="local")
    refused: list[Callable[[], object]] = [
        lambda: estimate(session, run_request),
        lambda: start_run(project, session.pk, run_request),
        lambda: start_run(project, session.pk, RunRequest()),
        lambda: start_comparison(project, session.pk, [local, RunRequest(from_step=1, to_step=2)]),
        lambda: retry_run(started),
    ]
    for attempt in refused:
        with pytest.raises(ModelNotAllowed, match=REFUSED):
            attempt()
    assert estimate(session, RunRequest(model="claude-haiku-4-5")).calls == 2
    assert worked_on(start_run(project, session.pk, local).run).state == "succeeded"
    assert loopback.requests == []


def test_automatic_runs_use_the_local_summariser_for_a_model_that_is_not_listed(
    project: Project, loopback: Loopback
) -> None:
    change_project(project, {"paid_automatic_compression": True, **ONLY_HAIKU})
    run = worked_on(automatic_run(project))
    assert (run.model, run.state) == ("local", "succeeded")
    assert "It allows claude-haiku-4-5" in run.note
    assert loopback.requests == []


def test_the_default_model_is_replaced_only_by_one_that_is_allowed(
    project: Project, record: Record, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    session = record(6)
    assert estimate(session, RunRequest()).model.endswith(FALLBACK_MODEL)
    change_project(project, {"allowed_models": ["claude-opus-4-5"]})
    assert estimate(Session.objects.get(pk=session.pk), RunRequest()).model == "local"


def test_a_waiting_run_ends_when_its_model_is_removed_from_the_list(
    project: Project, record: Record, loopback: Loopback
) -> None:
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini")).run
    change_project(project, ONLY_HAIKU)
    run = worked_on(run)
    assert (run.state, run.calls) == ("failed", 0)
    assert "does not allow the model" in run.note
    assert loopback.requests == []


def test_a_waiting_run_ends_when_a_cap_is_lowered(
    project: Project, record: Record, loopback: Loopback
) -> None:
    set_caps(project, {"day": 10_000_000})
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini")).run
    set_caps(project, {"day": 1})
    run = worked_on(run)
    assert (run.state, run.calls) == ("failed", 0)
    assert "The next day begins at" in run.note
    assert loopback.requests == []


@pytest.mark.parametrize("how", ["withdraw", "revoke", "expire"])
def test_a_waiting_run_ends_when_its_key_may_no_longer_spend(
    project: Project, record: Record, loopback: Loopback, how: str
) -> None:
    key, _ = create_key(project, "agent", scopes=("read", "write", "spend"))
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini"), spender=Spender(key)).run
    match how:
        case "withdraw":
            change_scopes(key, remove=("spend",))
        case "revoke":
            revoke_key(project, key.prefix)
        case _:
            ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())
    run = worked_on(run)
    assert (run.state, run.calls) == ("failed", 0)
    reason = {"withdraw": "lacks the scope `spend`", "revoke": "has been revoked", "expire": " expired at "}
    assert reason[how] in run.note
    assert loopback.requests == []


@pytest.mark.parametrize("how", ["demote", "remove", "deactivate"])
def test_a_waiting_run_ends_when_its_person_may_no_longer_spend(
    project: Project, record: Record, loopback: Loopback, how: str
) -> None:
    alice = User.objects.create_user("alice")
    membership = Membership.objects.create(project=project, user=alice, is_owner=True)
    session = record(6).pk
    run = start_run(project, session, RunRequest(model="gpt-5-mini"), actor="user:alice").run
    match how:
        case "demote":
            Membership.objects.filter(pk=membership.pk).update(is_owner=False)
        case "remove":
            membership.delete()
        case _:
            User.objects.filter(pk=alice.pk).update(is_active=False)
    run = worked_on(run)
    assert (run.state, run.calls) == ("failed", 0)
    assert "alice requested this and no longer owns the project" in run.note
    assert loopback.requests == []


@pytest.mark.parametrize("how", ["cap", "model", "key"])
def test_a_run_whose_permission_is_withdrawn_during_a_pause_sends_no_further_attempt(
    project: Project, record: Record, loopback: Loopback, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = create_key(project, "agent", scopes=("read", "write", "spend"))
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini"), spender=Spender(key)).run
    loopback.default = lambda _: Refusal(500)

    def withdraw(_: float) -> None:
        with short_connection():
            match how:
                case "cap":
                    set_caps(project, {"day": 0})
                case "model":
                    change_project(project, ONLY_HAIKU)
                case _:
                    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())

    monkeypatch.setattr(summarise, "sleep", withdraw)
    run = worked_on(run)
    reason = {"cap": "The project may spend", "model": "does not allow the model", "key": "has been revoked"}
    assert (run.state, reason[how] in run.note) == ("failed", True)
    assert 1 <= len(loopback.requests) == run.calls <= run.total


def test_a_run_of_an_owner_calls_its_model(project: Project, record: Record, loopback: Loopback) -> None:
    Membership.objects.create(project=project, user=User.objects.create_user("alice"), is_owner=True)
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini"), actor="user:alice").run
    assert worked_on(run).state == "succeeded"


def test_a_run_counts_in_the_cap_of_its_key_and_a_retry_in_the_cap_of_the_key_that_retries(
    project: Project, record: Record, loopback: Loopback
) -> None:
    key, _ = create_key(project, "agent", scopes=("read", "write", "spend"))
    set_caps(project, {"day": 0}, key=key)
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini"), spender=Spender(key)).run
    run = worked_on(run)
    assert (run.state, f"The API key {key.prefix}…" in run.note) == ("failed", True)
    run = worked_on(retry_run(run, actor="operator"))
    assert (run.state, run.calls) == ("succeeded", 2)


def test_a_worker_that_still_has_a_cancelled_run_pays_with_the_key_that_retried_it(
    project: Project, record: Record, loopback: Loopback
) -> None:
    """A key whose cap is reached had 54 calls of another key's run paid with that key."""
    first, _ = create_key(project, "first", scopes=("read", "write", "spend"))
    second, _ = create_key(project, "second", scopes=("read", "write", "spend"))
    set_caps(project, {"day": 0}, key=second)
    run = start_run(project, record(6).pk, RunRequest(model="gpt-5-mini"), spender=Spender(first)).run
    plan(run.pk)
    owner = uuid4()
    jobs = read_jobs(run, claim(run.pk, owner, 2)).jobs
    summariser = Summariser(CompressionRun.objects.get(pk=run.pk), InlineWriter())
    assert summariser.summarise(jobs[0].item, jobs[0].source).draft
    retry_run(cancel_run(run), spender=Spender(second))
    result = summariser.summarise(jobs[1].item, jobs[1].source)
    assert (result.fatal, f"The API key {second.prefix}…" in result.error) == (True, True)
    assert len(loopback.requests) == 1


def test_an_automatic_run_that_starts_while_paid_runs_are_turned_off_calls_no_model(
    project: Project, loopback: Loopback
) -> None:
    change_project(project, {"paid_automatic_compression": True})
    run = automatic_run(project)
    Project.objects.filter(pk=project.pk).update(paid_automatic_compression=False)  # before it could be seen
    run = worked_on(run)
    assert (run.state, run.calls) == ("failed", 0)
    assert "turned off paid automatic compression" in run.note
    assert loopback.requests == []
    run = worked_on(retry_run(run, actor="operator"))
    assert (run.state, run.calls) == ("succeeded", 4), "a person who retries it may spend"
