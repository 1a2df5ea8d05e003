"""A loopback that serves both providers, and one way to ask each of the three APIs."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from historyapp.core.formats import FORMATS
from historyapp.llm.completions import Completion, collect
from historyapp.llm.deltas import ModelOutputDelta
from historyapp.llm.model_calls import call_model
from historyapp.llm.request import ModelRequest, TimeLimits
from historyapp.llm.retries import RetryPolicy
from historyapp.llm.router import PROVIDERS
from tests.llm.loopback import Answer, Loopback

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"name": "read_file", "description": "Reads a file.", "input_schema": SCHEMA}


@dataclass(frozen=True)
class Api:
    """One of the APIs that models are called through."""

    name: str
    path: str
    model: str
    context: Mapping[str, Any]
    half_way: int
    """Events after which a part of the text has been sent."""

    def request(self, *, tools: bool = False, **more: Any) -> ModelRequest:
        """A request in this API's shape, with or without a tool."""
        shape = FORMATS[PROVIDERS[self.name].format]
        context = {**self.context, **({"tools": shape.tools([TOOL])} if tools else {})}
        return ModelRequest(self.model, context, **more)


_MESSAGES = [{"role": "user", "content": "Where is the bug?"}]
APIS = (
    Api("openai", "/v1/chat/completions", "gpt-5.3", {"messages": _MESSAGES}, 3),
    Api(
        "openai_responses", "/v1/responses", "openai_responses:gpt-5.3",
        {"instructions": "Help.", "input": _MESSAGES}, 6,
    ),
    Api("anthropic", "/v1/messages", "claude-opus-5", {"system": "Help.", "messages": _MESSAGES}, 5),
)  # fmt: skip


@pytest.fixture(scope="session")
def loopback_server() -> Iterator[Loopback]:
    """The server. SDK clients load the trusted certificates once: to load them takes 20 ms."""
    import httpcore2

    certificates = cache(httpcore2.default_ssl_context)
    with pytest.MonkeyPatch.context() as patch, Loopback() as server:
        patch.setattr(httpcore2, "default_ssl_context", certificates)
        yield server


@pytest.fixture
def loopback(loopback_server: Loopback, monkeypatch: pytest.MonkeyPatch) -> Loopback:
    loopback_server.steps.clear()
    loopback_server.requests.clear()
    loopback_server.default = lambda _: Answer(text="All is well.")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, value in loopback_server.environment.items():
        monkeypatch.setenv(name, value)
    return loopback_server


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    parameter: Api = request.param
    return parameter


@dataclass
class Caller:
    """Calls models without sleeping; ``waits`` has the pauses."""

    waits: list[float] = field(default_factory=list)
    limits: TimeLimits = field(default_factory=lambda: TimeLimits(connect=5, read=5, total=30))

    def deltas(self, request: ModelRequest, **policy: Any) -> list[ModelOutputDelta]:
        return list(self.call(request, **policy))

    def call(self, request: ModelRequest, **policy: Any) -> Generator[ModelOutputDelta]:
        retries = RetryPolicy(sleep=self.waits.append, random=lambda: 0.0, **policy)
        return call_model(request, limits=self.limits, retries=retries)

    def collected(self, request: ModelRequest, **policy: Any) -> Completion:
        return collect(self.call(request, **policy))


@pytest.fixture
def caller(loopback: Loopback) -> Caller:
    return Caller()
