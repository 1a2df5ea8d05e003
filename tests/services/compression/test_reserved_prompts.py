"""A compression run reserves the tokens of its prompts as its model counts them."""

from typing import Any

import pytest

from historyapp.core.strategies.base import SummaryPrompt
from historyapp.core.tokens import count_tokens
from historyapp.core.usage import Usage
from historyapp.models import Project, SpendingCounter, TokenCorrection
from historyapp.services.compression import summarise
from historyapp.services.compression.summarise import MeteredModel
from historyapp.services.prices import price_list
from historyapp.services.reservations import Reservation
from historyapp.services.sessions import create_session
from historyapp.services.spending import Payer
from tests.llm.loopback import Loopback, Raw

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "ഇത് മലയാളത്തിൽ എഴുതിയ ഒരു വാക്യമാണ്. " * 50


@pytest.fixture
def payer(project: Project) -> Payer:
    return Payer(project.pk, create_session(project).pk)


@pytest.mark.parametrize(
    ("model", "factor"),
    [("gpt-5-mini", 1), ("gpt-4-turbo", 5), ("claude-haiku-4-5", 1.25), ("openai:mistral", 1.1)],
)
def test_a_prompt_is_reserved_with_the_tokens_of_its_model(
    model: str, factor: float, payer: Payer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved = list[int]()

    def reserve(payer: Payer, model: str, tokens_in: int, _: int, *, purpose: str) -> Reservation:
        reserved.append(tokens_in)
        return Reservation(payer, model, purpose=purpose)

    monkeypatch.setattr(summarise, "reserve", reserve)
    MeteredModel(model, payer).complete(SummaryPrompt("Summarise.", TEXT, 200))
    learned = TokenCorrection(project_id=payer.project_id, model=model, ours=100, theirs=300)
    learned.save()
    MeteredModel(model, payer).complete(SummaryPrompt("Summarise.", TEXT, 200))
    ours, is_exact = count_tokens(TEXT), model.startswith("gpt")
    assert factor * ours < reserved[0] < (factor + 1) * ours
    assert reserved[1] == reserved[0] if is_exact else reserved[1] > 3 * ours


@pytest.mark.parametrize(
    "usage", ["null", '{"total_tokens":900}', '{"prompt_tokens":5}', '{"completion_tokens":5}']
)
def test_a_call_whose_usage_is_not_known_keeps_its_maximum_cost(
    usage: str, payer: Payer, loopback: Loopback
) -> None:
    choice = '{"index":0,"delta":{"content":"All is well."},"finish_reason":"stop"}'
    event = f'{{"id":"x","model":"m","choices":[{choice}],"usage":{usage}}}'
    loopback.default = lambda _: Raw(f"data: {event}\n\ndata: [DONE]\n\n".encode())
    metered = MeteredModel("gpt-5-mini", payer)
    assert metered.complete(SummaryPrompt("Summarise.", TEXT, 2_000)) == "All is well."
    price: Any = price_list().of("gpt-5-mini")
    counted = SpendingCounter.objects.of_project(payer.project_id).get(period="day").counted
    assert counted > price.cost(Usage(0, 2_000))
