"""Chooses the provider of a model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from historyapp.core.errors import Invalid
from historyapp.llm import anthropic_messages, openai_chat, openai_responses
from historyapp.llm.provider import Provider

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        provider.name: provider
        for provider in (openai_chat.PROVIDER, openai_responses.PROVIDER, anthropic_messages.PROVIDER)
    }
)
LOCAL = "local"
"""The name of the extractive summariser, which needs no provider."""

_NAMES = (
    (re.compile(r"(ft:)?(gpt|chatgpt|codex)-.+|(ft:)?o\d.*", re.IGNORECASE), "openai"),
    (re.compile(r"claude-.+", re.IGNORECASE), "anthropic"),
)


@dataclass(frozen=True, slots=True)
class Route:
    """A provider and the provider's name of the model."""

    provider: Provider
    model: str


class ProviderRouter:
    """Chooses a provider by ``provider:model``, or by the prefix of the model's name."""

    def __init__(self, providers: Mapping[str, Provider] = PROVIDERS) -> None:
        self._providers = providers

    def route(self, model: str) -> Route:
        """The provider of a model.

        Raises:
            Invalid: if no provider serves the model. The message lists the providers.
        """
        prefix, colon, name = model.partition(":")
        if prefix == LOCAL:
            raise self._unserved("`local` summarises without a model and cannot be called.")
        if colon and prefix in self._providers:
            if not name.strip():
                raise Invalid(f"`{prefix}:` must be followed by the name of a model.")
            return Route(self._providers[prefix], name)
        for pattern, provider in _NAMES:
            if provider in self._providers and pattern.fullmatch(model):
                return Route(self._providers[provider], model)
        raise self._unserved(f"No provider is known for the model {model[:100]!r}.")

    def _unserved(self, reason: str) -> Invalid:
        explicit = ", ".join(f"`{name}:`" for name in self._providers)
        return Invalid(
            f"{reason} Write the provider before the model: {explicit}. "
            "Without it, gpt-…, chatgpt-…, codex-… and o1, o3 … go to openai, claude-… to anthropic.",
            providers=list(self._providers),
        )
