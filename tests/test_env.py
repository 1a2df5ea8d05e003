"""Settings from the environment are typed, and errors name the variable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from historyapp import env

NAME = "PLAYHEAD_EXAMPLE"


def reading(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", False), ("1", True), ("TRUE", True), (" yes ", True), ("0", False), ("off", False)],
)
def test_a_boolean_is_read_in_every_common_notation(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    reading(monkeypatch, value)
    assert env.boolean(NAME) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", 7), ("1", 1), ("33554432", 33554432), ("32M", 32 << 20), ("32 MiB", 32 << 20), ("1gb", 1 << 30)],
)
def test_a_size_is_bytes_with_an_optional_unit(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: int
) -> None:
    reading(monkeypatch, value)
    assert env.size(NAME, default=7) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", ""), ("https://a.example/", "https://a.example"), ("http://[::1]:80", "http://[::1]:80")],
)
def test_an_origin_has_no_path(monkeypatch: pytest.MonkeyPatch, value: str, expected: str) -> None:
    reading(monkeypatch, value)
    assert env.origin(NAME) == expected


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (env.boolean, "maybe"),
        (lambda name: env.size(name, 1), "lots"),
        (lambda name: env.size(name, 1), "0"),
        (lambda name: env.size(name, 1), "-5"),
        (lambda name: env.choice(name, ("FULL", "OFF")), "HALF"),
        (env.origin, "a.example"),
        (env.origin, "https://a.example/path"),
        (env.origin, "https://user:word@a.example"),
        (env.origin, "https://[::1"),
        (env.token, "short"),
        (env.token, "has a space in the middle"),
    ],
)
def test_the_error_of_an_invalid_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object], value: str
) -> None:
    reading(monkeypatch, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        read(NAME)


def test_an_error_about_a_secret_does_not_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reading(monkeypatch, "hush hush")
    with pytest.raises(ImproperlyConfigured) as caught:
        env.token(NAME)
    assert "hush" not in str(caught.value)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_is_a_size_or_is_refused(value: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        reading(monkeypatch, value)
        try:
            size = env.size(NAME, default=1)
        except ImproperlyConfigured:
            return
    assert size > 0


def test_words_are_separated_by_commas_or_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    reading(monkeypatch, " a.example, b.example  c.example,")
    assert env.words(NAME) == ["a.example", "b.example", "c.example"]


def test_a_secret_is_read_from_the_file_that_its_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_KEY", "")  # so that it is as before after the test
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "secret_key"))
    (tmp_path / "secret_key").write_text("from the file\n")
    env.read_secrets()
    assert env.text("SECRET_KEY") == "from the file"
    (tmp_path / "secret_key").write_text("another")
    env.read_secrets()
    assert env.text("SECRET_KEY") == "from the file"


@pytest.mark.parametrize("content", [None, b"\xff\xfe secret"])
def test_a_secret_that_cannot_be_read_stops_the_start_and_stays_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    monkeypatch.setenv("REDIS_URL_FILE", str(tmp_path / "url"))
    if content is not None:
        (tmp_path / "url").write_bytes(content)
    with pytest.raises(ImproperlyConfigured, match=r"REDIS_URL_FILE=.* cannot be read") as raised:
        env.read_secrets()
    assert "\\xff" not in str(raised.value)
    assert raised.value.__cause__ is None
