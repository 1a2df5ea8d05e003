"""``docs/models.md`` says what the code does."""

import re
from pathlib import Path
from typing import get_args

import pytest

from historyapp.llm.anthropic_messages import DEFAULT_MAX_TOKENS
from historyapp.llm.deltas import FinishReason, ModelOutputDelta
from historyapp.llm.errors import ModelCallError
from historyapp.llm.request import TimeLimits
from historyapp.llm.router import LOCAL, PROVIDERS
from historyapp.llm.transport import MAX_RESPONSE

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
DELTAS = get_args(get_args(ModelOutputDelta)[0])


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[str]:
    return re.findall(r"^\| `([\w-]+)` \|", section(title), re.MULTILINE)


def test_every_provider_is_listed_with_its_format() -> None:
    table = section("Which provider")
    for provider in PROVIDERS.values():
        assert re.search(
            rf"^\| `{provider.name}:` \+ any name .*`{provider.format}` \|$", table, re.MULTILINE
        )
    assert f"| `{LOCAL}` |" in table


@pytest.mark.parametrize("delta", DELTAS, ids=lambda delta: delta.__name__)
def test_every_delta_is_listed_with_its_fields(delta: type[ModelOutputDelta]) -> None:
    kind = delta.model_fields["kind"].default
    (cell,) = re.findall(rf"^\| `{kind}` \| (.*) \|$", section("What comes back"), re.MULTILINE)
    unsaid = set(delta.model_fields) - {"kind", "attempt", "usage"}
    if kind in ("started", "thought", "tool_call", "finished"):
        assert {name for name in unsaid if f"`{name}`" not in cell} == set()


def test_no_other_delta_is_documented() -> None:
    kinds = [delta.model_fields["kind"].default for delta in DELTAS]
    assert rows("What comes back") == kinds
    assert all(f"`{reason}`" in section("What comes back") for reason in get_args(FinishReason))


def test_every_reason_of_a_failure_is_listed() -> None:
    reasons = {kind.reason for kind in ModelCallError.__subclasses__()}
    assert set(rows("When a call fails")) == reasons
    errors = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
    assert all(f"`{reason}`" in errors for reason in reasons)


def test_the_figures_are_those_of_the_code() -> None:
    limits = TimeLimits()
    text = " ".join(PAGE.split())
    assert f"{limits.connect} seconds for a connection, {limits.read} seconds without data" in text
    assert f"{limits.total} seconds for the whole call" in text
    assert f"{DEFAULT_MAX_TOKENS:,} tokens" in text
    assert f"{MAX_RESPONSE // 1024**2} MiB" in text
