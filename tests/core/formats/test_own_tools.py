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
CALLED_OTHERWISE = {
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


def test_every_tool_of_anthropics_that_is_named_with_a_day_goes_to_anthropic() -> None:
    dated = [kind for kind in types_in(ToolUnionParam) if kind[-8:].isdigit()]
    assert len(dated) > 10
    assert {maker_of({"type": kind}) for kind in dated} == {"anthropic_messages"}


def test_every_tool_of_openais_is_known_or_called_otherwise() -> None:
    """A new one in the SDK fails here, so that somebody looks at it and renews the date."""
    kinds = set(types_in(ToolParam))
    own = {kind for kind in kinds if maker_of({"type": kind}) == "openai_responses"}
    assert kinds - own == CALLED_OTHERWISE


def test_a_tool_that_is_not_known_is_refused_with_the_date_of_the_list() -> None:
    with pytest.raises(Invalid, match=f"known on {OWN_TOOLS_AS_OF}"):
        tool_of({"type": "time_machine"})


def test_the_pages_say_the_dates_that_the_code_says() -> None:
    for page in ("contexts.md", "models.md"):
        text = " ".join((DOCS / page).read_text().split())
        assert OWN_TOOLS_AS_OF in text
        assert f"as of {load_prices().as_of}" in text
