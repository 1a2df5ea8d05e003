"""How strategies call a model, and the handling of its faults."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from historyapp.core.errors import Invalid
from historyapp.core.settings import SessionSettings
from historyapp.core.strategies import STRATEGIES
from historyapp.core.strategies.base import NotSummarised, SummaryPrompt
from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.errors import LimitReached, ModelCallError, ResponseBroken
from historyapp.llm.model_calls import call_model
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.response_memory import CountMemory
from historyapp.llm.retries import RetryPolicy
from historyapp.services.compression import provider_limits, summarise
from historyapp.services.compression.request import RunRequest, choose_model
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.compression.summarise import MeteredModel
from tests.llm.loopback import Answer, Broken, Loopback, Raw, Refusal
from tests.services.compression.conftest import Compress, Record

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"goal": {"type": "string"}},
    "required": ["goal"],
    "additionalProperties": False,
}
PROMPT = SummaryPrompt("Summarise the step.", "<data-1>It failed.</data-1>", 200)
MODELS = ("gpt-5-mini", "openai_responses:gpt-5-mini", "claude-haiku-4-5")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Resets pauses and limits before and after the test."""
    provider_limits.provider_limiter.cache_clear()
    yield
    provider_limits._own_pauses.clear()
    provider_limits.provider_limiter.cache_clear()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which tests skip."""
    slept: list[float] = []
    monkeypatch.setattr(summarise, "RetryPolicy", partial(RetryPolicy, random=lambda: 0.0))
    for module in (summarise, provider_limits):
        monkeypatch.setattr(module, "sleep", slept.append)
    return slept


@pytest.mark.parametrize("model", MODELS)
def test_every_provider_gets_instruction_and_material_separately(model: str, loopback: Loopback) -> None:
    metered = MeteredModel(model, None)
    assert metered.complete(PROMPT) == "All is well."
    body = loopback.requests[-1].body
    sent = body["messages"] if "messages" in body else body["input"]
    assert sent[-1] == {"role": "user", "content": PROMPT.material}
    system = body.get("system") or body.get("instructions") or sent[0]["content"]
    assert PROMPT.instruction in str(system)
    assert metered.usage.calls == 1
    assert metered.usage.tokens_in > 0


@pytest.mark.parametrize("model", MODELS)
def test_every_provider_is_asked_for_structured_output(model: str, loopback: Loopback) -> None:
    MeteredModel(model, None).complete(SummaryPrompt("Summarise.", "data", 200, SCHEMA))
    assert "json_schema" in str(loopback.requests[-1].body)
    assert "'goal'" in str(loopback.requests[-1].body)


def test_a_failed_model_call_is_counted(loopback: Loopback, waits: list[float]) -> None:
    loopback.default = lambda _: Refusal(400, "No.", "invalid_request_error")
    metered = MeteredModel("gpt-5-mini", None)
    with pytest.raises(ModelCallError, match="No"):
        metered.complete(PROMPT)
    assert (metered.usage.calls, metered.usage.tokens_in) == (1, 0)


def test_every_call_of_a_model_waits_for_the_pause_that_its_provider_asks_for(
    loopback: Loopback, waits: list[float]
) -> None:
    loopback.steps.append(Refusal(429, "Slow down.", "rate_limit_error", headers={"retry-after": "50"}))
    assert MeteredModel("gpt-5-mini", None).complete(PROMPT) == "All is well."
    assert waits == [50]
    for model in ("gpt-5-nano", "claude-haiku-4-5", "gpt-5-mini"):  # only the last one has a pause
        MeteredModel(model, None).complete(PROMPT)
    [_, pause] = waits
    assert 20 < pause <= 50


def test_a_configured_rate_limit_holds(loopback: Loopback, settings: Any) -> None:
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/second"}
    started = time.monotonic()
    for _ in range(5):
        MeteredModel("gpt-5-mini", None).complete(PROMPT)
    assert time.monotonic() - started > 1.5


def test_without_redis_model_calls_continue(loopback: Loopback, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.PLAYHEAD_RATE_LIMITS = {"openai": "2/second"}
    assert MeteredModel("gpt-5-mini", None).complete(PROMPT) == "All is well."


def test_a_refusal_is_not_a_summary(loopback: Loopback) -> None:
    loopback.default = lambda _: Answer(refusal="I cannot help with that.")
    with pytest.raises(NotSummarised, match="refused"):
        MeteredModel("gpt-5-mini", None).complete(PROMPT)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Refusal(500), "could not process the request"),
        (Refusal(429, "Wait.", "rate_limit_error", headers={"retry-after": "4000"}), "rate limit"),
        (Broken("cut", after=2), ""),
        (Broken("garbage", after=2), ""),
        (Raw(b"<html>a proxy's page</html>", "text/html"), ""),
        (Answer(text=""), "empty"),
        (Answer(text="   \n"), "empty"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_the_run_ends_with_a_reason_for_any_fault_of_the_model(
    step: Any, says: str, record: Record, compress: Compress, loopback: Loopback, waits: list[float]
) -> None:
    loopback.default = lambda _: step
    run = compress(record(6))
    assert (run.state, run.done, run.failed) == ("failed", 0, 2)
    errors = list(run.items.values_list("error", flat=True))
    assert all(error.strip() for error in errors)
    assert says in run.note.lower() if says else run.note


@pytest.mark.django_db(transaction=True)
def test_a_provider_that_fails_is_logged_once_a_run_with_its_cause(
    record: Record, compress: Compress, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.default = lambda _: Refusal(400, "The context is too long.", "invalid_request_error")
    run = compress(record(12))
    address = loopback.environment["ANTHROPIC_BASE_URL"]
    cause = (
        f"OpenAI refuses the request (400). Model openai:gpt-5-mini at {address}, 1 attempt. "
        "Provider message: The context is too long."
    )
    assert set(run.items.values_list("error", flat=True)) == {cause}
    assert cause in run.note
    (record_,) = [each for each in caplog.records if each.name == "historyapp.services.compression.summarise"]
    assert record_.getMessage().endswith(f"of the run {run.pk} failed: {cause}")


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_is_far_too_long_is_refused(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    loopback.default = lambda _: Answer(text="word " * 100_000, sizes=(50_000,))
    run = compress(record(5))
    assert (run.state, run.done, run.failed) == ("failed", 0, 1)
    assert "500,000 characters long instead of at most 1,000" in run.note
    assert not run.summaries.exists()


@pytest.mark.django_db(transaction=True)
def test_an_unknown_model_is_called_for_a_few_steps_only(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    loopback.default = lambda _: Refusal(404, "The model does not exist.", "invalid_request_error")
    run = compress(record(60), model="openai:gpt-9")
    assert run.state == "failed"
    assert "does not exist" in run.note
    assert len(loopback.requests) <= 16


@pytest.mark.django_db(transaction=True)
def test_a_key_removed_meanwhile_is_named(
    record: Record, project: Any, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(project, record(20).pk, RunRequest("episode_summary", model="claude-haiku-4-5")).run
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    process_run(run.pk)
    run.refresh_from_db()
    assert run.state == "failed"
    assert "ANTHROPIC_API_KEY" in run.note


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(Invalid, match="No provider is known"):
        MeteredModel("nobody-knows", None)


def test_strategies_get_the_errors_of_model_calls(loopback: Loopback, waits: list[float]) -> None:
    loopback.default = lambda _: Broken("garbage", after=1)
    with pytest.raises(ResponseBroken):
        MeteredModel("gpt-5-mini", None).complete(PROMPT)
    loopback.default = lambda _: Refusal(429, "Wait.", "rate_limit_error", headers={"retry-after": "4000"})
    with pytest.raises(LimitReached):
        MeteredModel("gpt-5-mini", None).complete(PROMPT)


def wait_briefly(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Model calls with the text wait 0.2 seconds and are not repeated; others wait as long as usual."""

    def call(
        request: ModelRequest, *, limits: TimeLimits, retries: RetryPolicy, count_memory: CountMemory
    ) -> Iterator[ModelOutputDelta]:
        if text in str(request):
            limits, retries = replace(limits, read=0.2), replace(retries, attempts=1)
        return call_model(request, limits=limits, retries=retries, count_memory=count_memory)

    monkeypatch.setattr(summarise, "call_model", call)


@pytest.mark.django_db(transaction=True)
def test_a_provider_that_never_answers_is_not_called_for_every_step(
    record: Record, compress: Compress, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_briefly(monkeypatch, "")
    loopback.default = lambda _: Broken("hang")
    run = compress(record(60))
    assert (run.state, run.done, run.failed) == ("failed", 0, 56)
    assert "silent for too long" in run.note
    assert len(loopback.requests) <= 24


@pytest.mark.django_db(transaction=True)
def test_one_timeout_among_responses_loses_one_step(
    record: Record, compress: Compress, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_briefly(monkeypatch, "module_7.")
    loopback.default = lambda request: (
        Broken("hang") if "module_7." in str(request.body) else Answer(text="Read it.")
    )
    run = compress(record(20))
    assert (run.state, run.done, run.failed) == ("partly_failed", 15, 1)


def test_with_an_anthropic_key_only_the_default_model_is_anthropic_s(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    chosen = choose_model(STRATEGIES["episode_summary"], None, SessionSettings())
    assert chosen.name == "anthropic:claude-haiku-4-5"
    assert "OPENAI_API_KEY" in chosen.note
    own = choose_model(STRATEGIES["episode_summary"], None, SessionSettings(llm_name="gpt-5.2"))
    assert own.name == "local"


@pytest.mark.django_db(transaction=True)
def test_the_instruction_of_the_session_overrides_that_of_the_project(
    record: Record, compress: Compress, loopback: Loopback
) -> None:
    loopback.default = lambda _: Answer(text='{"summary": "It read a file."}')
    for own, of_project, expected in (
        ({}, "", "Summarise these steps of an AI agent's work"),
        ({}, "Keep the migrations.", "Keep the migrations."),
        ({"summary_instruction": "Keep the paths."}, "Keep the migrations.", "Keep the paths."),
    ):
        session = record(2)
        session.settings = own
        session.save()
        session.project.summary_instruction = of_project
        session.project.save()
        assert compress(session, strategy="ai_summary", from_step=1, to_step=2).state == "succeeded"
        system = str(loopback.requests[-1].body)
        assert expected in system
        assert ("Keep the migrations." in system) is (expected == "Keep the migrations.")
