"""What a provider's error objects mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.json import dump_json
from historyapp.llm.errors import (
    MAX_MESSAGE,
    KeyRefused,
    LimitReached,
    ModelCallError,
    ProviderFailed,
    RequestRefused,
    TimedOut,
    error_from,
    retry_after,
    without_keys,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["error", "type", "code"]), inner)
    ),
)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, RequestRefused, False),
        (401, KeyRefused, False),
        (402, LimitReached, False),
        (404, RequestRefused, False),
        (408, TimedOut, True),
        (409, ProviderFailed, True),
        (422, RequestRefused, False),
        (429, LimitReached, True),
        (500, ProviderFailed, True),
        (504, TimedOut, True),
        (529, ProviderFailed, True),
    ],
)
def test_the_status_determines_the_error_and_whether_to_retry(
    status: int, kind: type[ModelCallError], retryable: bool
) -> None:
    error = error_from({}, provider="OpenAI", status=status)
    assert (type(error), error.retryable, error.provider_status) == (kind, retryable, status)
    assert error.fields["provider"] == "OpenAI"
    assert f"({status})" in error.detail


@pytest.mark.parametrize(
    "code", ["insufficient_quota", "enforced_spend_limit_reached", "contract_spend_limit_reached"]
)
def test_a_spending_limit_is_not_retried(code: str) -> None:
    openai = {"error": {"code": code, "message": "Pay."}}
    anthropic = {"error": {"type": "rate_limit_error", "details": {"error_code": code}}}
    for body in (openai, anthropic):
        error = error_from(body, provider="P", status=429)
        assert isinstance(error, LimitReached)
        assert not error.retryable


@pytest.mark.parametrize(
    ("name", "status"), [("overloaded_error", 529), ("rate_limit_error", 429), ("who_knows", 500)]
)
def test_an_error_in_a_stream_is_known_by_its_type(name: str, status: int) -> None:
    assert error_from({"error": {"type": name}}, provider="P").provider_status == status


@given(JSON, st.none() | st.integers(300, 599))
def test_every_error_object_becomes_an_error(body: object, status: int | None) -> None:
    error = error_from(body, provider="P", status=status)
    assert len(error.provider_message) <= MAX_MESSAGE
    assert dump_json(error.fields)
    assert error.detail.encode()


@pytest.mark.parametrize("key", ["sk-proj-abcDEF_123", "any secret without a form"])
def test_messages_never_contain_a_key(key: str) -> None:
    assert key not in without_keys(f"Incorrect API key provided: {key}. Find yours elsewhere.", key)


@pytest.mark.parametrize("key", ["sk-abcdefgh", "sk-ant-api03-xyz", "sk-proj-****wxyz", "Bearer abc.def"])
def test_messages_never_contain_text_that_looks_like_a_key(key: str) -> None:
    assert without_keys(f"You sent {key} to us") == "You sent [key] to us"


def test_a_key_at_the_end_of_the_message_is_removed() -> None:
    key = "k" * 60
    assert "k" * 10 not in without_keys("x" * (MAX_MESSAGE - 20) + key, key)


def test_messages_are_one_bounded_line() -> None:
    words = without_keys("<html>\n" + "a b\0" * 10_000)
    assert len(words) <= MAX_MESSAGE
    assert "\n" not in words
    assert "\0" not in words


NOON = 1_760_000_400.0  # Thu, 09 Oct 2025 09:00:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Thu, 09 Oct 2025 09:01:30 GMT"}, 90),
        ({"retry-after": "Thu, 09 Oct 2025 08:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=lambda: NOON) == seconds


@pytest.mark.parametrize(("value", "retryable"), [("true", True), ("false", False), ("perhaps", True)])
def test_should_retry_overrides_the_status(value: str, retryable: bool) -> None:
    error = error_from({}, provider="P", status=500, headers={"x-should-retry": value, "retry-after": "4"})
    assert (error.retryable, error.fields["retryable"], error.retry_after) == (retryable, retryable, 4)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "m", "detail": "d"}}, "m"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"msg": "too long"}]}, '{"detail":[{"msg":"too long"}]}'),
        ({"error": "just words"}, "just words"),
        ({"error": {"code": 7, "message": None}}, '{"code":7,"message":null}'),
        ("upstream connect error", "upstream connect error"),
        ("\n<!DOCTYPE html><html><title>503</title><p>No <b>backend</b>", "503 No backend"),
        ("<no tag", "<no tag"),
        ({}, ""),
        (None, ""),
        (["a"], ""),
    ],
)
def test_the_message_is_found_in_any_error_object(body: object, words: str) -> None:
    error = error_from(body, provider="P", status=502)
    assert error.provider_message == words
    quoted = f" Provider message: {words}" if words else ""
    assert error.detail == f"P could not process the request (502).{quoted}"


def test_a_long_html_page_is_read_quickly() -> None:
    assert len(without_keys("<html>" + "<" * 5_000_000)) <= MAX_MESSAGE
