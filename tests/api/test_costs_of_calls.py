"""The cost of a model call is reserved for all that it sends and for each attempt, at the right price."""

from typing import Any

import pytest

from historyapp.core.usage import Usage
from historyapp.models import Project, Session, SpendingCounter, SpendingReservation
from historyapp.services.prices import price_list
from historyapp.services.projects import change_project
from historyapp.services.reservations import OUTPUT_LIMIT, Reservation, reserve
from historyapp.services.spending import Payer
from tests.api.agent import Agent, ask
from tests.api.conftest import key_for
from tests.api.test_problems import assert_problem
from tests.llm.loopback import Answer, Broken, Loopback, Raw, Refusal

CALL = {"model": "gpt-5", "policy": "live"}


@pytest.fixture
def ready(run: Agent, loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Agent:
    run.append(ask("find it"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return run


@pytest.fixture
def reserved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The estimates of the attempts, in order."""
    amounts, add = list[int](), Reservation.add_attempt

    def add_attempt(self: Reservation) -> None:
        add(self)
        amounts.append(self.attempt_cost)

    monkeypatch.setattr(Reservation, "add_attempt", add_attempt)
    return amounts


def counted(project: Project) -> int:
    return SpendingCounter.objects.of_project(project.pk).get(period="day").counted


@pytest.mark.parametrize("options", [{"web_search_options": {}}, {"service_tier": "priority"}])
def test_an_option_without_a_price_is_refused_only_if_there_is_a_cap(
    alice: Agent, ready: Agent, loopback: Loopback, options: dict[str, Any]
) -> None:
    assert ready.post("/calls", {**CALL, "options": options}).status == 200
    alice.patch("/project", {"monthly_cap": 5})
    refused = ready.post("/calls", {**CALL, "options": options})
    assert_problem(refused, 402, f"the option '{next(iter(options))}'", "Leave it out.")
    assert refused["ends_at"].endswith("-01T00:00:00Z")
    assert len(loopback.requests) == 1
    assert not SpendingReservation.objects.exists()


def test_a_tool_that_the_provider_runs_is_refused_if_there_is_a_cap(
    alice: Agent, ready: Agent, loopback: Loopback
) -> None:
    alice.patch("/project", {"monthly_cap": 5})
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    refused = ready.post("/calls", {"model": "claude-sonnet-4-5", "policy": "live", "tools": tools})
    assert_problem(refused, 402, "the provider's own tool 'web_search_20250305'")
    assert loopback.requests == []


TOOLS = [{"type": "image_generation", "quality": "high"}]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"options": {"models": ["openai/gpt-5-pro"]}}, "the option 'models'"),
        ({"options": {"prompt": {"id": "pmpt_1"}}}, "the option 'prompt'"),
        ({"tools": TOOLS, "provider": "openai_responses"}, "the provider's own tool 'image_generation'"),
    ],
)
def test_options_with_other_models_are_refused_only_with_a_list_of_models(
    project: Project, ready: Agent, loopback: Loopback, fields: dict[str, Any], part: str
) -> None:
    ready.post("/calls", {**CALL, **fields})
    sent = len(loopback.requests)
    assert sent
    change_project(project, {"allowed_models": ["gpt-5"]})
    refused = ready.post("/calls", {**CALL, **fields})
    assert_problem(refused, 403, "allows only the models gpt-5", part, "Leave it out")
    assert (refused["allowed_models"], len(loopback.requests)) == (["gpt-5"], sent)
    assert ready.post("/calls", {**CALL, "options": {"temperature": 1}}).status == 200


def test_a_file_that_the_provider_fetches_is_refused_if_there_is_a_cap(
    alice: Agent, ready: Agent, loopback: Loopback
) -> None:
    address = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    ready.append({"kind": "model_input", "content": [address]})
    alice.patch("/project", {"monthly_cap": 5})
    refused = ready.post("/calls", {"model": "claude-sonnet-4-5", "policy": "live"})
    assert_problem(refused, 402, "a file that the provider would fetch", "Leave it out.")
    assert loopback.requests == []


@pytest.mark.parametrize("limit", [None, 700])
@pytest.mark.parametrize("model", ["gpt-5", "openai_responses:gpt-5", "claude-sonnet-4-5"])
def test_the_output_limit_that_is_sent_is_the_one_that_is_reserved(
    alice: Agent, ready: Agent, loopback: Loopback, reserved: list[int], model: str, limit: int | None
) -> None:
    alice.patch("/project", {"monthly_cap": 5})
    ready.post("/calls", {**CALL, "model": model, "max_output_tokens": limit})
    fields = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    (sent,) = (loopback.requests[0].body[name] for name in fields if name in loopback.requests[0].body)
    assert sent == (limit or OUTPUT_LIMIT)
    price = price_list().of(model)
    assert price is not None
    assert price.cost(Usage(0, sent)) < reserved[0] < price.cost(Usage(0, sent)) + 10_000


@pytest.mark.parametrize(
    ("model", "price", "factor"), [("gpt-5", 1.25, 1), ("claude-sonnet-4-5", 3.75, 1.25)]
)
def test_the_estimate_includes_options(
    ready: Agent, loopback: Loopback, reserved: list[int], model: str, price: float, factor: float
) -> None:
    ready.post("/calls", {**CALL, "model": model})
    ready.post("/calls", {**CALL, "model": model, "options": {"metadata": {"user_id": "word " * 10_000}}})
    assert reserved[1] - reserved[0] > 10_000 * price * factor * 1.3, "1.3 times our count"


def test_a_call_whose_usage_is_not_understood_keeps_its_maximum_cost(
    project: Project, ready: Agent, loopback: Loopback, reserved: list[int]
) -> None:
    choice = '{"index":0,"delta":{"content":"All is well."},"finish_reason":"stop"}'
    event = f'{{"id":"x","model":"m","choices":[{choice}],"usage":{{"total_tokens":900}}}}'
    loopback.default = lambda _: Raw(f"data: {event}\n\ndata: [DONE]\n\n".encode())
    assert ready.post("/calls", CALL).status == 200
    assert counted(project) == sum(reserved) > 0


@pytest.mark.parametrize(
    ("sent", "written", "is_believed"),
    [
        (400_000, 5, True),
        (900_000, 5, False),
        (9_999_999_999, 5, False),
        (9, 999_000, True),
        (9, 1_001_000, False),
    ],
)
def test_usage_that_is_not_plausible_does_not_use_up_the_caps(
    project: Project,
    ready: Agent,
    loopback: Loopback,
    reserved: list[int],
    sent: int,
    written: int,
    is_believed: bool,
) -> None:
    """The usage of a broken proxy counted as $4,500. An honest one of a call without a limit may be high."""
    choice = '{"index":0,"delta":{"content":"All is well."},"finish_reason":"stop"}'
    usage = f'{{"prompt_tokens":{sent},"completion_tokens":{written}}}'
    event = f'{{"id":"x","model":"{CALL["model"]}","choices":[{choice}],"usage":{usage}}}'
    loopback.default = lambda _: Raw(f"data: {event}\n\ndata: [DONE]\n\n".encode())
    response = ready.post("/calls", CALL)
    assert response.status == 200
    assert (b'"money":"unknown"' not in response.body) == is_believed
    assert (counted(project) == sum(reserved)) == (not is_believed)
    session = Session.objects.get()
    assert (session.money > 0) == (session.shown_tokens == sent) == is_believed


def test_usage_is_judged_by_the_limit_that_was_sent(
    alice: Agent, project: Project, ready: Agent, reserved: list[int]
) -> None:
    alice.patch("/project", {"monthly_cap": 50})
    payer = Payer(project.pk, Session.objects.get().pk)
    price = price_list().of("gpt-5-pro")
    assert price
    reservation = reserve(payer, "gpt-5-pro", 1000, None)
    assert reservation.believed(price, Usage(1300, 10 * OUTPUT_LIMIT))
    assert reservation.believed(price, Usage(1300, 10 * OUTPUT_LIMIT + 1)) is None, "it was sent as the limit"
    assert reserve(payer, "gpt-5-pro", 1000, 900).believed(price, Usage(1300, 9001)) is None
    alice.patch("/project", {"monthly_cap": None})
    assert reserve(payer, "gpt-5-pro", 1000, None).believed(price, Usage(200_000, 9)) is None
    with_file = reserve(payer, "gpt-5-pro", 1000, None, uncounted="the file")
    assert with_file.believed(price, Usage(200_000, 9)) == 3_001_080


def test_low_usage_that_agents_report_does_not_lower_the_estimate(
    ready: Agent, loopback: Loopback, reserved: list[int]
) -> None:
    ready.append(ask("word " * 10_000))
    call = {**CALL, "model": "claude-sonnet-4-5"}
    ready.post("/calls", call)
    served = ready.post("/contexts", call)
    tokens = served["tokens"]
    usage = {"input_tokens": int(tokens["estimated"] / tokens["factor"] * 0.6), "output_tokens": 1}
    ready.append({"kind": "model_output", "metadata": {"snapshot": served["snapshot"], "usage": usage}})
    assert ready.post("/contexts", call)["tokens"]["factor"] < tokens["factor"]
    ready.post("/calls", call)
    assert reserved[1] >= reserved[0]


def test_an_attempt_after_the_first_words_is_reserved_and_stays_counted(
    ready: Agent, loopback: Loopback, project: Project, reserved: list[int]
) -> None:
    loopback.steps.extend([Broken("cut", after=4), Answer(text="All of it.")])
    ready.post("/calls", CALL)
    assert len(reserved) == 2
    assert counted(project) == reserved[0] + round(ready.get("/ledger")["money"] * 1_000_000)
    assert not SpendingReservation.objects.exists()


def test_attempts_that_the_provider_refused_cost_nothing(
    ready: Agent, loopback: Loopback, project: Project, reserved: list[int]
) -> None:
    loopback.steps.extend([Refusal(429, "slow down", "rate_limit_error")] * 4)
    assert_problem(ready.post("/calls", CALL), 502)
    assert (len(reserved), counted(project)) == (1, 0)


def test_a_retry_beyond_the_cap_is_refused_and_logged(
    alice: Agent, ready: Agent, loopback: Loopback, project: Project, reserved: list[int]
) -> None:
    ready.post("/calls", {**CALL, "max_output_tokens": 1000})
    alice.patch("/project", {"daily_cap": (counted(project) + 1.5 * reserved[0]) / 1_000_000})
    loopback.steps.append(Broken("cut", after=4))
    response = ready.post("/calls", {**CALL, "max_output_tokens": 1000})
    assert "The project may spend" in str(response.body)
    assert len(loopback.requests) == 2
    assert ready.get("/entries")["items"][-1]["kind"] == "debug_log"
    assert not SpendingReservation.objects.exists()


def test_calls_that_break_off_before_the_first_word_never_exceed_the_cap(
    alice: Agent, ready: Agent, loopback: Loopback, project: Project, reserved: list[int]
) -> None:
    ready.post("/calls", CALL)
    before, requests = counted(project), len(loopback.requests)
    alice.patch("/project", {"daily_cap": (before + 1.5 * reserved[0]) / 1_000_000})
    for _ in range(3):
        loopback.steps.append(Broken("cut", after=0))
        ready.post("/calls", CALL)
    assert len(loopback.requests) == requests + 1
    assert counted(project) == before + reserved[1]


@pytest.mark.django_db(transaction=True)
def test_a_model_call_stays_counted_after_its_client_disconnects(
    ready: Agent, loopback: Loopback, project: Project, reserved: list[int]
) -> None:
    loopback.steps.append(Answer(text="All is well, and goes on for a while. " * 10))
    response = ready._client.post(f"{ready._base}/calls", CALL, "application/json")
    response.close()
    assert counted(project) == reserved[0]
    assert not SpendingReservation.objects.exists()


def test_an_image_is_reserved_at_the_tokens_that_its_model_counts(
    ready: Agent, loopback: Loopback, reserved: list[int]
) -> None:
    image = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
    ready.append({"kind": "model_input", "content": [image]})
    for model in ("gpt-4o-mini", "openai_responses:gpt-4o-mini"):
        assert ready.post("/calls", {"model": model, "policy": "live", "max_output_tokens": 16}).status == 200
        price = price_list().of(model)
        assert price is not None
        assert reserved.pop() > price.cost(Usage(input=48_169))


def test_a_key_that_may_not_spend_cannot_choose_the_compression_model(project: Project, run: Agent) -> None:
    recorder = Agent(key_for(project, "recorder", ("read", "write")))
    costly = {"settings": {"llm_name": "claude-opus-4-5"}}
    made = recorder.post("/sessions", {"settings": {"llm_name": "local"}})
    session = recorder.within(f"/sessions/{made['id']}")
    assert session.patch("", {"settings": {"llm_name": "gpt-5-mini"}}).status == 200, "the default"
    for is_paid in (False, True):  # a choice made before an owner turns it on would be paid for later
        change_project(project, {"paid_automatic_compression": is_paid})
        for refused in (
            recorder.post("/sessions", costly),
            session.patch("", {"settings": {"llm_name": "gpt-5.2-pro"}}),
        ):
            assert_problem(refused, 403, "Compression with", "lacks the scope `spend`")
    assert session.patch("", {"settings": {"max_summary_length": 900}}).status == 200
    assert session.patch("", {"settings": {"llm_name": "local"}}).status == 200
    assert run.patch("", {"settings": {"llm_name": "gpt-5.2"}}).status == 200
