"""Function tools, given in any provider's shape, in the shape that one provider takes.

So one session can plan with one provider and execute with another, with the same tools.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from historyapp.core.errors import Invalid

Tool = dict[str, Any]
_NO_ARGUMENTS = {"type": "object", "properties": {}}


def as_openai_chat(name: str, schema: Any, extras: Tool) -> Tool:
    return {"type": "function", "function": {"name": name, **extras, "parameters": schema}}


def as_openai_responses(name: str, schema: Any, extras: Tool) -> Tool:
    return {"type": "function", "name": name, **extras, "parameters": schema}


def as_anthropic(name: str, schema: Any, extras: Tool) -> Tool:
    return {"name": name, **extras, "input_schema": schema}


def tools_as(shape: Callable[[str, Any, Tool], Tool], tools: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """The tools in a provider's shape. Tools that are no functions (web search …) stay as they are.

    Raises:
        Invalid: for a function without a name or whose schema is not one of an object.
    """
    return [_shaped(shape, tool) for tool in tools]


def _shaped(shape: Callable[[str, Any, Tool], Tool], tool: Mapping[str, Any]) -> Tool:
    inner = tool.get("function")
    told = inner if isinstance(inner, Mapping) else tool
    if tool.get("type") not in (None, "function", "custom") or "format" in told:
        return dict(tool)
    name = told.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid("A tool needs a name.")
    schema = told.get("parameters", told.get("input_schema", _NO_ARGUMENTS))
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise Invalid(f"The parameters of tool {name[:64]!r} must be a JSON schema of type object.")
    extras = {
        key: told[key] for key in ("description", "strict", "cache_control") if told.get(key) is not None
    }
    if shape is not as_anthropic:
        extras.pop("cache_control", None)
    return shape(name, dict(schema), extras)
