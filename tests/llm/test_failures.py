"""The error of a failed call names model, address, attempts and response, and contains no secret."""

import socket

import pytest

from historyapp.llm.errors import (
    KeyRefused,
    ProviderFailed,
    ProviderUnreachable,
    RequestRefused,
)
from historyapp.llm.model_calls import count_tokens
from historyapp.llm.router import PROVIDERS
from tests.llm.conftest import APIS, Api, Caller
from tests.llm.loopback import Loopback, Raw, Refusal
from tests.llm.loopback.server import WRONG_KEY

PAGE = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><hr>nginx</body>\r\n</html>\r\n"


def test_an_error_names_model_address_attempts_status_and_message(
    loopback: Loopback, api: Api, caller: Caller
) -> None:
    loopback.default = lambda _: Refusal(529, "Overloaded", "overloaded_error")
    with pytest.raises(ProviderFailed) as caught:
        caller.collected(api.request(), attempts=3)
    address = loopback.environment["ANTHROPIC_BASE_URL"]
    provider = caught.value.provider
    called = f"Model {api.model} at {address}, 3 attempts."
    assert (
        str(caught.value)
        == f"{provider} could not process the request (529). {called} Provider message: Overloaded"
    )
    assert caught.value.detail == str(caught.value)
    known = {"model": api.model, "address": address, "attempts": 3, "provider_status": 529}
    assert caught.value.fields.items() >= known.items()


def test_an_error_without_retry_has_one_attempt(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.steps.append(Refusal(400, "No.", "invalid_request_error"))
    with pytest.raises(RequestRefused, match=r", 1 attempt\. Provider message: No"):
        caller.collected(api.request())


def test_the_text_of_a_proxys_html_page_is_kept(loopback: Loopback, api: Api, caller: Caller) -> None:
    loopback.default = lambda _: Raw(PAGE, "text/html", status=502)
    with pytest.raises(ProviderFailed, match=r"\(502\).* Provider message: 502 Bad Gateway nginx$"):
        caller.collected(api.request())


def test_a_lost_connection_has_its_cause(
    api: Api, caller: Caller, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        for name in loopback.environment:
            if name.endswith("_URL"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(ProviderUnreachable, match=r"failed: .*Connection refused"):
            caller.collected(api.request())


def test_the_address_is_given_without_path_and_secrets(
    api: Api, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in loopback.environment:
        if name.endswith("_URL"):
            monkeypatch.setenv(name, "https://models.example:8443/tenant-4711/v1?token=abc123")
    assert PROVIDERS[api.name].address() == "https://models.example:8443"


def test_errors_of_token_counting_have_the_same_fields(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", WRONG_KEY)
    with pytest.raises(
        KeyRefused, match=r"\(401\)\. Model claude-opus-5 at http://127\.0\.0\.1:\d+, 1 attempt\."
    ):
        count_tokens(APIS[-1].request())
