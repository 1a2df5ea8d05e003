"""What all providers' requests share."""

from typing import Any

import pytest

from historyapp.core.errors import Invalid
from historyapp.llm.provider import Provider
from historyapp.llm.request import ModelRequest
from historyapp.llm.router import PROVIDERS
from tests.llm.conftest import APIS, Api


def body(api: Api, **more: Any) -> dict[str, Any]:
    provider: Provider = PROVIDERS[api.name]
    return provider.body(api.request(**more), "m")


@pytest.mark.parametrize("other", APIS, ids=lambda api: api.name)
def test_a_context_of_another_format_is_refused(api: Api, other: Api) -> None:
    request = ModelRequest(api.model, other.context)
    if set(other.context) <= set(api.context) or api is other:
        assert PROVIDERS[api.name].body(request, "m")
        return
    with pytest.raises(Invalid, match="another format"):
        PROVIDERS[api.name].body(request, "m")


@pytest.mark.parametrize("name", ["model", "stream", "tools"])
def test_options_cannot_set_reserved_fields(api: Api, name: str) -> None:
    with pytest.raises(Invalid, match=f"`{name}` cannot be set"):
        body(api, options={name: 1})


def test_options_cannot_request_several_completions() -> None:
    with pytest.raises(Invalid, match="`n` cannot be set"):
        body(APIS[0], options={"n": 2})


def test_a_limit_below_one_is_refused(api: Api) -> None:
    with pytest.raises(Invalid, match="at least 1, not 0"):
        body(api, max_output_tokens=0)


def test_text_that_no_provider_accepts_is_replaced(api: Api) -> None:
    assert body(api, options={"user": "a\0b\ud800"})["user"] == "a\ufffdb\ufffd"


def test_a_context_is_sent_as_it_was_rendered(api: Api) -> None:
    request = api.request(tools=True)
    written = PROVIDERS[api.name].body(request, "m")
    assert {name: written[name] for name in request.context} == request.context
