"""Converts tool definitions from any provider's shape to the shape of one provider.

So one session can plan with one provider and execute with another, with the same tools. Tools that a provider
runs itself (web search …) are not functions: they are sent to that provider unchanged, and to no other.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from historyapp.core.errors import Invalid
from historyapp.core.formats.calls import legal_name
from historyapp.core.formats.schemas import schema_fault
from historyapp.core.json import depth_exceeds
from historyapp.core.text import clean, clean_value

Definition = Mapping[str, Any]
_NO_ARGUMENTS = {"type": "object", "properties": {}}
OWN_TOOLS_AS_OF = "2026-11-22"
"""The date on which the built-in tools of providers were last compared with the SDKs' types."""
_BUILT_IN = {
    "anthropic_messages": re.compile(r"[a-z][a-z0-9_]*_20\d{6}"),
    "openai_responses": re.compile(
        r"web_search(_preview)?(_20\d\d_\d\d_\d\d)?|file_search|code_interpreter|image_generation"
    ),
}
"""Types of the tools that are built into a format's provider. Sources: types ``ToolUnionParam`` of the
anthropic SDK, whose names end with a date, and ``ToolParam`` of the openai SDK: only those that OpenAI runs
itself. The others lead to calls that are not function calls, which the log cannot store, and ``mcp`` holds
keys, which snapshots must not contain."""


class Tool(NamedTuple):
    """A function that a model may call. ``schema`` is a JSON schema of type object."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None = None


def tool_of(definition: Any) -> Tool:
    """Reads a definition in the shape of OpenAI chat, OpenAI responses, MCP or Anthropic.

    Raises:
        Invalid: without a legal name, with parameters that are not a JSON schema of an object, or for a tool
            that is not a function.
    """
    fields = definition.get("function", definition) if isinstance(definition, Mapping) else None
    if not isinstance(fields, Mapping):
        raise Invalid("A tool must be an object with a name, a description and parameters.")
    if definition.get("type") not in (None, "function", "custom") or "format" in fields:
        kind = definition.get("type")
        if maker := maker_of(definition):
            raise Invalid(f"A tool of type {kind!r} can only be sent in the format {maker}.")
        raise Invalid(
            f"The tool type {str(kind)[:64]!r} is unknown: it is neither a function nor in the list of the "
            f"providers' own tools of {OWN_TOOLS_AS_OF}. Define the tool as a function."
        )
    name, description = fields.get("name"), fields.get("description") or ""
    if not isinstance(name, str) or legal_name(name) != name:
        raise Invalid(f"A tool's name must be 1 to 64 letters, digits, _ and -, not {str(name)[:80]!r}.")
    if not isinstance(description, str):
        raise Invalid(f"The description of tool {name!r} must be text.")
    strict = fields.get("strict")
    return Tool(name, clean(description), _schema(name, fields), strict if isinstance(strict, bool) else None)


def maker_of(definition: Any) -> str | None:
    """The format of the provider whose built-in tool this is; None for functions."""
    kind = definition.get("type") if isinstance(definition, Mapping) else None
    if not isinstance(kind, str) or len(kind) > 64:
        return None
    return next((format for format, kinds in _BUILT_IN.items() if kinds.fullmatch(kind)), None)


def _schema(name: str, fields: Definition) -> dict[str, Any]:
    schemas = [
        fields[key] for key in ("parameters", "input_schema", "inputSchema") if fields.get(key) is not None
    ]
    schema = schemas[0] if schemas else _NO_ARGUMENTS
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or depth_exceeds(schema):
        raise Invalid(f"The parameters of tool {name!r} must be a JSON schema of type object.")
    if fault := schema_fault(schema):
        raise Invalid(f"The parameters of tool {name!r} are not a JSON schema: {fault}.")
    cleaned: dict[str, Any] = clean_value(dict(schema))
    return {**cleaned, "properties": cleaned.get("properties", {})}


def tools_as(
    format: str, shape: Callable[[Tool], dict[str, Any]], definitions: Iterable[Definition]
) -> list[dict[str, Any]]:
    """The tools in the shape of a format's provider. The provider's built-in tools are unchanged.

    Raises:
        Invalid: as :func:`tool_of`, for another provider's built-in tools, and for two tools with one name.
    """
    tools, names = list[dict[str, Any]](), list[Any]()
    for definition in definitions:
        if maker_of(definition) == format:
            if depth_exceeds(definition):
                raise Invalid(f"The tool of type {definition['type']!r} is nested too deep.")
            # The format sets the four cache breakpoints that a request may have.
            cleaned = clean_value(dict(definition))
            tools.append({name: value for name, value in cleaned.items() if name != "cache_control"})
            names.append(definition.get("name") or definition["type"])
        else:
            tool = tool_of(definition)
            tools.append(shape(tool))
            names.append(tool.name)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise Invalid(f"There is more than one tool with the name {str(repeated[0])[:80]!r}.")
    return tools


def name_fields(tool: Tool) -> dict[str, Any]:
    """The name of a tool, and its description if it has one."""
    return {"name": tool.name, "description": tool.description} if tool.description else {"name": tool.name}


def strict_field(tool: Tool) -> dict[str, Any]:
    """``strict`` if the definition sets it."""
    return {} if tool.strict is None else {"strict": tool.strict}
