"""Which provider a model belongs to."""

import pytest

from historyapp.core.errors import Invalid
from historyapp.core.formats import FORMATS
from historyapp.llm.router import PROVIDERS, ProviderRouter


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("gpt-5.3", "openai", "gpt-5.3"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("o3", "openai", "o3"),
        ("o4-mini-2025-04-16", "openai", "o4-mini-2025-04-16"),
        ("codex-mini-latest", "openai", "codex-mini-latest"),
        ("ft:gpt-4o:acme::abc", "openai", "ft:gpt-4o:acme::abc"),
        ("claude-opus-5", "anthropic", "claude-opus-5"),
        ("openai:qwen2.5:7b", "openai", "qwen2.5:7b"),
        ("openai_responses:o3", "openai_responses", "o3"),
        ("anthropic:my-gateway/claude", "anthropic", "my-gateway/claude"),
    ],
)
def test_a_model_is_routed_to_its_provider(model: str, provider: str, name: str) -> None:
    route = ProviderRouter().route(model)
    assert (route.provider.name, route.model) == (provider, name)


@pytest.mark.parametrize(
    "model", ["", "llama-4", "ollama", "opus", "gpt-", "claude", "azure:gpt-5", "ft:llama", "o"]
)
def test_an_unknown_model_is_refused_with_the_known_ones(model: str) -> None:
    with pytest.raises(Invalid) as caught:
        ProviderRouter().route(model)
    assert all(f"`{name}:`" in caught.value.detail for name in PROVIDERS)
    assert caught.value.fields["providers"] == list(PROVIDERS)


def test_every_provider_takes_a_format_that_exists() -> None:
    assert {provider.format for provider in PROVIDERS.values()} <= set(FORMATS)


@pytest.mark.parametrize("model", ["local", "local:anything"])
def test_the_summariser_cannot_be_called(model: str) -> None:
    with pytest.raises(Invalid, match="cannot be called"):
        ProviderRouter().route(model)


def test_a_provider_without_a_model_is_refused() -> None:
    with pytest.raises(Invalid, match="name of a model"):
        ProviderRouter().route("openai:")


def test_a_router_uses_only_its_own_providers() -> None:
    router = ProviderRouter({"anthropic": PROVIDERS["anthropic"]})
    with pytest.raises(Invalid):
        router.route("gpt-5.3")
