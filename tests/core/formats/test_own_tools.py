"""The list of providers' own tools is dated and equals that of the installed SDKs."""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from anthropic.types import ToolUnionParam
from openai.types.responses import ToolParam

from historyapp.core.errors import Invalid
from historyapp.core.formats.tools import OWN_TOOLS_AS_OF, maker_of, tool_of
from historyapp.core.prices import load_prices

DOCS = Path(__file__).parents[3] / "docs"
NAMED_OTHERWISE = {
    "function", "custom", "computer", "computer_use_preview", "mcp", "programmatic_tool_calling",
    "local_shell", "shell", "namespace", "tool_search", "apply_patch",
}  # fmt: skip
"""Of OpenAI: functions, and what it asks for by calls that are no functions, or with keys."""


def types_in(declared: Any) -> Iterator[str]:
    """The values of the field ``type`` in a union of typed dictionaries."""
    for part in get_args(declared):
        yield from types_in(part)
    if hasattr(declared, "__annotations__"):
        field = typing.get_type_hints(declared).get("type")
        yield from (value for value in get_args(field) if isinstance(value, str))


def test_every_dated_tool_of_anthropic_is_sent_to_anthropic() -> None:
    dated = [kind for kind in types_in(ToolUnionParam) if kind[-8:].isdigit()]
    assert len(dated) > 10
    assert {maker_of({"type": kind}) for kind in dated} == {"anthropic_messages"}


def test_every_tool_of_openai_is_known_or_has_another_name() -> None:
    """A new tool in the SDK fails this test, so that somebody checks it and updates the date."""
    kinds = set(types_in(ToolParam))
    own = {kind for kind in kinds if maker_of({"type": kind}) == "openai_responses"}
    assert kinds - own == NAMED_OTHERWISE


def test_an_unknown_tool_is_refused_with_the_date_of_the_list() -> None:
    with pytest.raises(Invalid, match=f"own tools of {OWN_TOOLS_AS_OF}"):
        tool_of({"type": "time_machine"})


def test_the_pages_have_the_dates_of_the_code() -> None:
    for page in ("contexts.md", "models.md"):
        text = " ".join((DOCS / page).read_text().split())
        assert OWN_TOOLS_AS_OF in text
        assert f"prices of {load_prices().as_of}" in text
